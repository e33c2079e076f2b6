"""Reading a stored response from one of its events on, wherever they are kept."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from typing import Final

from django.db import DatabaseError
from django.http import StreamingHttpResponse

from inference import api
from inference.edge.errors import end_error
from inference.edge.replies import FIRST_EVENT_WAIT_S
from inference.edge.responses.render import ResponsesWire
from inference.edge.responses.stored import entries_of, frames_of, wire_of
from inference.edge.sse import sse_response
from inference.edge.steps import LOST_LOG, Broken, Step, Steps
from inference.protocol.events import Entry, Failed
from inference.protocol.fold import EMPTY, fold
from inference.queues.contract import START, Cursor, Position, Read
from inference.registry.responses import ResponseRecord, response_get
from llamaweb.accounts.database import in_database
from llamaweb.lib.errors import LlamawebError

log = logging.getLogger(__name__)

MAX_WAITING_READS: Final = 64  # between a log and a slow client

LATE_SEQ: Final = 2**53  # behind all that a log may have told before
# What a reader hears who comes back to events that nobody can number any more.
NOT_EXACT: Final = Failed(
    "invalid_request",
    "the events of this response were joined, and their numbers are lost; ask for it without",
    param="starting_after",
)


async def response_stream(
    user_id: int, record: ResponseRecord, *, after: int, ping_s: float | None
) -> StreamingHttpResponse:
    """The events behind number `after`, -1 for all; `ping_s` of silence are broken.

    Raises:
        LlamawebError: how it ended, if it was refused; the numbers of its events are lost.
    """
    follower = follow(user_id, record, after=after)
    try:
        first = await follower.first(FIRST_EVENT_WAIT_S)
        if first and isinstance(first[0], Broken):
            raise end_error(first[0].end)
    except BaseException:
        follower.close()
        raise
    chunks = _chunks(follower, wire_of(record, after=after), ping_s, is_silent=not first)
    response = sse_response(chunks)
    # A client that leaves before the first byte: the generator never begins, nor ends.
    weakref.finalize(response, _close_soon, asyncio.get_running_loop(), follower).atexit = False
    return response


class Follower:
    """Reads one log beside its reader; `close` it at the end."""

    def __init__(self, events: AsyncGenerator[Read | Position, None]) -> None:
        self._events = events
        self._steps = Steps()
        self._reads: asyncio.Queue[Read] = asyncio.Queue(MAX_WAITING_READS)
        self._ready: list[Step] = []
        self._pump = asyncio.create_task(self._read(), name="response-reader")

    @property
    def is_over(self) -> bool:
        """Whether all its steps were given out."""
        return self._steps.is_over and not self._ready

    async def first(self, timeout_s: float) -> list[Step]:
        """As `next`, which gives them again."""
        self._ready = await self.next(timeout_s)
        return list(self._ready)

    async def next(self, timeout_s: float | None) -> list[Step]:
        """The next steps; none, if nothing came within `timeout_s`."""
        ready, self._ready = self._ready, []
        if ready or self._steps.is_over:
            return ready
        try:
            async with asyncio.timeout(timeout_s):
                while not ready and not self._steps.is_over:
                    ready = self._fold(await self._reads.get())
        except TimeoutError:
            return []
        return ready

    def close(self) -> None:
        """Stop reading, any number of times."""
        self._pump.cancel()

    def _fold(self, read: Read) -> list[Step]:
        if read.gone:
            self._steps.is_over = True
            return [Broken(LOST_LOG)]
        steps = [] if read.reset is None else self._steps.reset(read.reset)
        return steps + [step for entry in read.entries for step in self._steps.feed(entry)]

    async def _read(self) -> None:
        """Carry the log into the queue; waits while the client is slow."""
        try:
            async with contextlib.aclosing(self._events) as events:
                async for item in events:
                    if isinstance(item, Read):
                        await self._reads.put(item)
        except (LlamawebError, DatabaseError):
            log.warning("a reader lost its response")
            await self._reads.put(Read(START, gone=True))


def follow(user_id: int, record: ResponseRecord, *, after: int = -1) -> Follower:
    """Reads the events of a response; `close` it at the end."""
    return Follower(_events(user_id, record, after))


def _close_soon(loop: asyncio.AbstractEventLoop, follower: Follower) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(follower.close)


async def _chunks(
    follower: Follower, wire: ResponsesWire, ping_s: float | None, *, is_silent: bool
) -> AsyncIterator[bytes]:
    try:
        if is_silent:
            yield wire.encoding.silence
        while not follower.is_over:
            steps = await follower.next(ping_s)
            data = _encoded(wire, steps) if steps else wire.encoding.silence
            if data:
                yield data
    finally:
        follower.close()


def _encoded(wire: ResponsesWire, steps: Sequence[Step]) -> bytes:
    return b"".join(wire.encoding.frame(frame, None) for frame in frames_of(wire, steps))


async def _events(
    user_id: int, record: ResponseRecord, after: int
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
        record = await in_database(response_get)(user_id=user_id, response_id=record.id)
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
