"""One model's engines in detail, as plain values for its live page: slots, caches, log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inference import bus
from inference.admin.engine_state import model_state, name_owners, number_of
from inference.models import ModelConfig
from inference.protocol.slot_uses import SlotUse, decode_slot_uses
from inference.queues.contract import SUPERVISOR_ID, EngineStatus
from llamaweb.lib.errors import UnavailableError

MAX_ENGINES = 8
TAIL_LEN = 8000
CACHE = {
    "slot_hits": "cache_slot_hit_tokens",
    "copy_hits": "cache_copy_hit_tokens",
    "host_hits": "cache_host_hit_tokens",
    "missed": "cache_missed_tokens",
    "slot_tokens": "cache_slot_tokens",
    "slot_bytes": "cache_slot_bytes",
    "host_entries": "cache_host_entries",
    "host_bytes": "cache_host_bytes",
    "host_budget_bytes": "cache_host_budget_bytes",
}


def engine_details(config: ModelConfig) -> dict[str, Any]:
    """As one model of `engines_state`, and in `details` more of each of its engines; `tail`: the
    last lines of the log of the one that runs. `error`: why nothing is known of the engines."""
    queue, error = bus.sync_queue(), ""
    statuses: tuple[EngineStatus, ...] = ()
    load = None
    try:
        statuses, load = queue.engines(config.name), queue.load(config.name)
    except UnavailableError as away:
        error = away.message
    engines = [s for s in statuses if s.engine_id != SUPERVISOR_ID and s.state != "stopped"]
    told = [s for s in statuses if s.engine_id == SUPERVISOR_ID and not s.is_silent]
    details = [_details(status) for status in engines[:MAX_ENGINES]]
    state = {
        **model_state(config, statuses, load),
        "details": details,
        "tail": next((str(s.info.get("tail", ""))[-TAIL_LEN:] for s in told), ""),
    }
    owners = [item for one in details for item in one["slots"] if item["owner"]]
    name_owners([*owners, *(state["queue"]["owners"] if state["queue"] else ())])
    return {"model": state, "error": error}


def _details(status: EngineStatus) -> dict[str, Any]:
    info = status.info
    num_slots = int(number_of(info.get("num_slots", 0)))
    uses = decode_slot_uses(info.get("slots")) if not status.is_silent else ()
    cache = {name: number_of(info.get(key, 0)) for name, key in CACHE.items()}
    return {
        "id": status.engine_id,
        "slots": list(_slots(uses, num_slots)),
        "cache": cache if any(key in info for key in CACHE.values()) else None,
        "threads": number_of(info.get("threads", 0)),
    }


def _slots(uses: Iterable[SlotUse], num_slots: int) -> Iterable[dict[str, Any]]:
    """The taken ones, then the free ones."""
    num_taken = 0
    for use in uses:
        num_taken += 1
        yield {
            "state": use.state,
            "owner": use.owner_key,
            "prompt": use.prompt_tokens,
            "cached": use.cached_tokens,
            "generated": use.generated_tokens,
            "context": use.context_tokens,
        }
    for _ in range(num_slots - num_taken):
        yield {"state": "free", "owner": ""}
