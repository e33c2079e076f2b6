"""Following one answer in the making: its log in Redis, as stream frames, until its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from conversations.edge.live.frames import Place, StreamFrame
from conversations.edge.live.reasons import Reasons
from conversations.edge.live.stream import StreamFold
from conversations.edge.live.tasks_end import tasks_end
from inference import api
from inference.api import Position
from llamaweb.lib.errors import LlamawebError

FRAMES_APART_S: Final = 0.03  # tokens that come in between travel together
SILENCE_S: Final = 1.0  # after this a reader is told why nothing moves
BACKOFF_S: Final = 0.2
BACKOFF_CAP_S: Final = 5.0
AGAIN_AFTER_GONE_S: Final = 5.0  # a sweep may submit it again

log = logging.getLogger(__name__)


class Tail:
    """Sends the frames of one generation with `send`, which waits while the client is slow: the
    log waits in Redis then. Ends by itself after the last frame; `close` it to leave early."""

    def __init__(
        self,
        fold: StreamFold,
        generation_id: str,
        model: str,
        *,
        send: Callable[[StreamFrame], Awaitable[None]],
        failed: Callable[[Exception], None],
    ) -> None:
        self.generation_id = generation_id
        self.sent = ""  # the cursor of the last frame that was sent, "" before it
        self._fold = fold
        self._model = model
        self._out = send
        self._failed = failed
        self._moved_ts = time.monotonic()
        self._place: Position | None = None
        self._reason = ""
        self._lock = asyncio.Lock()  # frames are sent in the order of their cursors
        self._task = asyncio.create_task(self._run(), name="live-tail")

    async def close(self) -> None:
        """Send nothing more."""
        await tasks_end([self._task])

    async def say_why(self, reasons: Reasons) -> None:
        """Called once a second: after a silence, tell the reader why nothing moves."""
        if self._fold.has_ended or time.monotonic() - self._moved_ts < SILENCE_S:
            return
        reason = await reasons.reason(self._model)
        # Between two frames of one answer it would claim, by its cursor, what isn't sent yet; and
        # then it isn't the answer that doesn't move.
        if reason == self._reason or self._fold.has_ended or self._lock.locked():
            return
        async with self._lock:
            self._reason = reason
            at = self._place or Position(0, 0)
            place = Place(ahead=at.ahead, waiting=at.waiting, reason=reason)
            await self._send(self._fold.place(place))

    async def _run(self) -> None:
        backoff_s = BACKOFF_S
        while not self._fold.has_ended:
            before = self._fold.cursor
            try:
                await self._follow()
                backoff_s = AGAIN_AFTER_GONE_S
            except LlamawebError as error:
                if not error.retryable:
                    return self._failed(error)
                log.info("an answer can't be followed for a moment: %s", error)
            except Exception as error:
                log.exception("following an answer failed")
                return self._failed(error)
            if self._fold.cursor != before:
                backoff_s = BACKOFF_S
            if not self._fold.has_ended:
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, BACKOFF_CAP_S)
        return None

    async def _follow(self) -> None:
        events = api.generation_events(
            self._model, self.generation_id, self._fold.cursor, expected=True
        )
        async with contextlib.aclosing(events):
            async for item in events:
                self._moved_ts = time.monotonic()
                async with self._lock:
                    for frame in self._take(item):
                        await self._send(frame)
                if self._fold.has_ended:
                    return
                await asyncio.sleep(FRAMES_APART_S)

    async def _send(self, frame: StreamFrame) -> None:
        await self._out(frame)
        self.sent = frame.cursor

    def _take(self, item: api.Read | Position) -> list[StreamFrame]:
        if isinstance(item, Position):
            self._place = item
            at = Place(ahead=item.ahead, waiting=item.waiting, reason=self._reason)
            return [self._fold.place(at)]
        if not item.gone:
            self._place, self._reason = None, ""
        return self._fold.take(item)
