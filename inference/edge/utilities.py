"""One question to an engine that needs no answer in pieces: tokens, counts, vectors."""

from __future__ import annotations

import contextlib
from typing import TypeVar

from inference import api
from inference.edge.errors import end_error
from inference.edge.instruments import RequestMeter
from inference.edge.steps import LOST_LOG
from inference.edge.submission import cancel_later
from inference.protocol.events import Cancelled, Event, Failed, Finished, Result
from inference.protocol.requests import UtilityRequest
from inference.protocol.results import UtilityResult
from inference.queues.contract import Position

R = TypeVar("R", bound=UtilityResult)


async def utility_answer(request: UtilityRequest, kind: type[R]) -> R:
    """Submit `request` and wait for its result; a caller that leaves cancels it. The engine ends
    it at its deadline at the latest.

    Raises:
        LlamawebError: refused by the queue or the engine, or however else it ended.
    """
    meter = RequestMeter(request.model, request.account) if request.account else None
    try:
        await api.generation_submit(request)
    except BaseException:
        if meter is not None:
            meter.refuse()
        raise
    is_over = False
    result: UtilityResult | None = None
    try:
        events = api.generation_events(request.model, request.generation_id)
        async with contextlib.aclosing(events):
            async for item in events:
                if isinstance(item, Position):
                    continue
                told: list[Event] = [entry.event for entry in item.entries]
                if item.reset is not None:
                    told = [e for e in (item.reset.result, item.reset.terminal) if e is not None]
                for event in told:
                    if meter is not None:
                        meter.record(event)
                    if isinstance(event, Result):
                        result = event.result
                    elif isinstance(event, Failed | Cancelled):
                        is_over = True
                        raise end_error(event)
                    elif isinstance(event, Finished):
                        is_over = True
                if item.gone:
                    is_over = True
    finally:
        if not is_over:
            cancel_later(request)
        if meter is not None:
            meter.abandon()
    if not isinstance(result, kind):
        raise end_error(LOST_LOG)
    return result
