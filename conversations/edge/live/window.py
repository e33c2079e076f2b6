"""Numbers the server's frames, and holds back while the client has not taken in what was sent."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from conversations.edge.live.bounds import STALL_S, URGENT_BYTES, WINDOW_BYTES
from conversations.edge.live.frames import Numbered
from conversations.edge.live.instruments import count_held
from llamaweb.lib.errors import DeadlineError, InvalidError

TOO_SLOW = f"nothing was acknowledged for {STALL_S:g} s while {WINDOW_BYTES} bytes waited"


class Window:
    """The outgoing side of a WebSocket. `write` takes one frame's text and doesn't wait long."""

    def __init__(
        self,
        write: Callable[[str], Awaitable[None]],
        *,
        window_bytes: int = WINDOW_BYTES,
        stall_s: float = STALL_S,
    ) -> None:
        self._write = write
        self._window_bytes = window_bytes
        self._stall_s = stall_s
        self._lock = asyncio.Lock()
        self._n = 0
        self._acked = 0
        self._sent: deque[tuple[int, int]] = deque()  # (n, bytes), not acknowledged
        self._unacked_bytes = 0
        self._ack_ts = time.monotonic()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def is_full(self) -> bool:
        """Whether the next frame would wait."""
        return self._unacked_bytes >= self._window_bytes

    async def send(self, frame: Numbered, *, urgent: bool = False) -> None:
        """Number and send a frame when there is room. `urgent`: don't wait, it is small.

        Raises:
            DeadlineError: the client takes nothing in.
        """
        if urgent:
            if self._unacked_bytes >= self._window_bytes + URGENT_BYTES:
                raise DeadlineError(TOO_SLOW)
        elif self.is_full:
            count_held()
            await self._wait()
        async with self._lock:
            self._n += 1
            frame.n = self._n
            text = frame.model_dump_json()
            size = len(text) if text.isascii() else len(text.encode())
            self._sent.append((self._n, size))
            self._unacked_bytes += size
            await self._write(text)

    def ack(self, n: int) -> None:
        """The client took in everything up to `n`.

        Raises:
            InvalidError: nothing with that number was sent.
        """
        if n > self._n:
            raise InvalidError(f"n must be at most {self._n}, the last frame's number", param="n")
        if n <= self._acked:
            return
        self._acked = n
        self._ack_ts = time.monotonic()
        while self._sent and self._sent[0][0] <= n:
            self._unacked_bytes -= self._sent.popleft()[1]
        if not self.is_full:
            self._room.set()

    async def _wait(self) -> None:
        """Until there is room; each ack gives the client another `stall_s`."""
        waits_since_ts = time.monotonic()
        while self.is_full:
            self._room.clear()
            until_ts = max(self._ack_ts, waits_since_ts) + self._stall_s
            try:
                async with asyncio.timeout(max(0.0, until_ts - time.monotonic())):
                    await self._room.wait()
            except TimeoutError:
                if max(self._ack_ts, waits_since_ts) + self._stall_s <= time.monotonic():
                    raise DeadlineError(TOO_SLOW) from None
