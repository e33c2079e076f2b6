"""What the leased generations of this process do, told from what was published of each."""

from __future__ import annotations

from collections.abc import Iterable

from inference.protocol.fold import Log
from inference.protocol.requests import GenerateRequest
from inference.protocol.slot_uses import SlotUse
from inference.worker.running import Running


def slot_uses(leases: Iterable[Running]) -> list[SlotUse]:
    """Those that need a slot."""
    return [
        _use(running.claim.request.owner_key, running.log)
        for running in leases
        if isinstance(running.claim.request, GenerateRequest)
    ]


def _use(owner_key: str, log: Log) -> SlotUse:
    started, progress = log.started, log.progress
    if started is None:
        return SlotUse("waiting", owner_key)
    prompt, cached = started.prompt_tokens, started.cached_tokens
    # An engine that computes elsewhere publishes text without tokens: nobody counts those.
    if log.token_ids or log.parts:
        return SlotUse("decode", owner_key, prompt, cached, prompt, len(log.token_ids))
    done = min(prompt, progress.done) if progress is not None else cached
    return SlotUse("prefill", owner_key, prompt, cached, done)
