"""Reading a stored response from one of its events on, wherever they are kept."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Final

from django.http import StreamingHttpResponse

from inference import api
from inference.edge.errors import end_error
from inference.edge.following import Batch, Follower
from inference.edge.replies import FIRST_EVENT_WAIT_S, streamed
from inference.edge.responses.render import ResponsesWire
from inference.edge.responses.stored import entries_of, frames_of, wire_of
from inference.edge.steps import Broken
from inference.edge.tool_places import placed
from inference.protocol.events import Entry, Failed
from inference.protocol.fold import EMPTY, fold
from inference.queues.contract import START, Cursor, Position, Read
from inference.registry.responses import ResponseRecord, response_get
from llamaweb.accounts.caller import Caller
from llamaweb.accounts.database import in_database

LATE_SEQ: Final = 2**53  # behind all that a log may have told before
# What a reader hears who comes back to events that nobody can number any more.
NOT_EXACT: Final = Failed(
    "invalid_request",
    "the events of this response were joined, and their numbers are lost; ask for it without",
    param="starting_after",
)


async def response_stream(
    caller: Caller, record: ResponseRecord, *, after: int, ping_s: float | None
) -> StreamingHttpResponse:
    """The events behind number `after`, -1 for all; `ping_s` of silence are broken.

    Raises:
        LlamawebError: how it ended, if it was refused; the numbers of its events are lost.
    """
    follower = follow(caller, record, after=after)
    wire = wire_of(record, after=after)
    try:
        batch = await follower.first(FIRST_EVENT_WAIT_S)
        if batch is not None and isinstance(batch.steps[0], Broken):
            raise placed(end_error(batch.steps[0].end), wire.places)
    except BaseException:
        follower.close()
        raise
    chunks = _chunks(follower, wire, ping_s, is_silent=batch is None)
    return streamed(chunks, ResponsesWire.encoding, follower)


def follow(caller: Caller, record: ResponseRecord, *, after: int = -1) -> Follower:
    """Reads the events of a response; `close` it at the end."""

    def source(_model: str, _generation_id: str) -> AsyncIterator[Read | Position]:
        return _events(caller, record, after)

    follower = Follower([(record.model_name, record.generation_id)], source=source)
    follower.start(0)
    return follower


async def _chunks(
    follower: Follower, wire: ResponsesWire, ping_s: float | None, *, is_silent: bool
) -> AsyncIterator[bytes]:
    try:
        if is_silent:
            yield wire.encoding.silence
        while not follower.is_over:
            batch = await follower.next(ping_s)
            data = wire.encoding.silence if batch is None else _encoded(wire, batch)
            if data:
                yield data
    finally:
        follower.close()


def _encoded(wire: ResponsesWire, batch: Batch) -> bytes:
    return b"".join(wire.encoding.frame(frame, None) for frame in frames_of(wire, batch.steps))


async def _events(
    caller: Caller, record: ResponseRecord, after: int
) -> AsyncGenerator[Read | Position, None]:
    """From the log; where that is forgotten, from the database."""
    has_read = False
    if not record.is_ended:
        tail = api.generation_events(record.model_name, record.generation_id, START, expected=True)
        async with contextlib.aclosing(tail) as items:
            async for item in items:
                if isinstance(item, Read) and item.gone:
                    break
                if isinstance(item, Read):
                    if item.reset is not None and not has_read and after >= 0:
                        yield Read(item.cursor, (Entry(0, NOT_EXACT),))
                        return
                    has_read = True
                yield item
            else:
                return
        record = await in_database(response_get)(
            user_id=caller.user_id, response_id=record.id, only=caller.model_names
        )
    if not record.is_ended:
        yield Read(START, gone=True)
    elif has_read:
        whole = replace(fold(EMPTY, entries_of(record)), seq=LATE_SEQ)
        yield Read(Cursor(1, LATE_SEQ), reset=whole)
    elif after >= 0 and not record.is_exact:
        yield Read(START, (Entry(0, NOT_EXACT),))
    else:
        entries = tuple(entries_of(record))
        yield Read(Cursor(1, entries[-1].seq), entries)
