"""A queue's bounds in the units of the scripts, and the errors its refusals become."""

from __future__ import annotations

import json
from typing import Final

from inference.queues.contract import QueueConfig
from llamaweb.lib.errors import BusyError

ENGINE_SHOWN_S: Final = 60.0  # a silent engine is listed that long
RETRY_QUEUE_S: Final = 5.0  # before anything is known of how fast a queue moves
LONGEST_RETRY_S: Final = 60.0
RETRY_MEMORY_S: Final = 10.0


def ms(seconds: float) -> int:
    """Whole milliseconds."""
    return int(seconds * 1000)


def away_ms(config: QueueConfig) -> int:
    """The longest silence that no renewed lease can run out in.

    Whoever holds a lease renewed it at most one interval before the silence began.
    """
    engine_s = config.lease_s - config.heartbeat_s
    reader_s = config.reader_lease_s - config.reader_renew_s
    return ms(min(engine_s, reader_s))


def script_config(config: QueueConfig) -> str:
    """JSON text of what the scripts need: milliseconds, bytes, counts."""
    return json.dumps(
        {
            "max_queued": config.max_queued,
            "max_queued_per_owner": config.max_queued_per_owner,
            "max_queued_bytes_per_owner": config.max_queued_bytes_per_owner,
            "lease": ms(config.lease_s),
            "reader_lease": ms(config.reader_lease_s),
            "away": away_ms(config),
            "background_age": ms(config.background_age_s),
            "max_deaths": config.max_deaths,
            "stream_bytes": config.stream_bytes,
            "ended_keep": ms(config.ended_keep_s),
            "utility_keep": ms(config.utility_keep_s),
            "unfinalised_keep": ms(config.unfinalised_keep_s),
            "memory_refuse_ratio": config.memory_refuse_ratio,
            "engine_shown": ms(ENGINE_SHOWN_S),
            "max_purges": config.max_purges,
            "purge_keep": ms(config.purge_keep_s),
            "max_usage": config.max_usage,
        },
        separators=(",", ":"),
    )


def busy(reason: str, config: QueueConfig, *, gap_ms: float = 0.0, waiting: int = 0) -> BusyError:
    """The refusal for `reason`: one of those that `Queue.submit` names. `gap_ms`: from claim to
    claim lately, 0 where nobody knows; `waiting`: how many stand before whoever comes now."""
    if reason == "queue_full":
        text = f"the model's queue is full ({config.max_queued} requests wait)"
    elif reason == "owner_queue_full":
        text = f"you have {config.max_queued_per_owner} requests waiting already, the most allowed"
    elif reason == "owner_queue_bytes":
        limit = config.max_queued_bytes_per_owner // 2**20
        text = f"your waiting requests would take more than {limit} MiB, the most allowed"
    else:
        text = "the server's memory for queues is nearly full"
    if reason == "memory":
        return BusyError(text, reason=reason, retry_after_s=RETRY_MEMORY_S)
    retry_s = min(LONGEST_RETRY_S, gap_ms / 1000) if gap_ms else RETRY_QUEUE_S
    return BusyError(text, reason=reason, retry_after_s=retry_s, position=waiting)
