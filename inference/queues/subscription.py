"""One reader of one generation inside a web process: its cursor and what has arrived for it.

No input or output here. `offer` is called by the process's one blocking read and never waits;
`take` by the reader. When the buffer is full, or what arrived doesn't join on to the cursor, the
buffer is dropped and the reader reads from Redis at its own pace (`stale`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from inference.protocol.events import Entry, is_terminal
from inference.queues.contract import Cursor, Position, Read

BUFFER_ENTRIES: Final = 256


class Subscription:
    """Belongs to one event loop. `stale`: the next thing to do is a read at `cursor`."""

    def __init__(self, model: str, generation_id: str, cursor: Cursor) -> None:
        self.model = model
        self.generation_id = generation_id
        self.cursor = cursor
        self.stale = True
        self.queued = False
        self._buffer: deque[tuple[int, Entry]] = deque()
        self._position: Position | None = None
        self._shown: Position | None = None
        self._changed = asyncio.Event()

    def offer(self, incarnation: int, entry: Entry) -> None:
        """An entry arrived."""
        if self.stale:
            return
        if len(self._buffer) >= BUFFER_ENTRIES:
            self.reread()
            return
        self._buffer.append((incarnation, entry))
        self._changed.set()

    def reread(self) -> None:
        """What arrived can't be relied on: read at the cursor."""
        self._buffer.clear()
        self.stale = True
        self._changed.set()

    def begin_read(self) -> None:
        """A read at the cursor starts; what arrives from now on is kept."""
        self._buffer.clear()
        self.stale = False

    def take(self) -> Read | None:
        """All that arrived and joins on to the cursor, or None."""
        entries: list[Entry] = []
        seq = self.cursor.seq
        while self._buffer:
            incarnation, entry = self._buffer.popleft()
            if incarnation != self.cursor.incarnation or entry.seq > seq + 1:
                self.reread()
                break
            if entry.seq == seq + 1:
                entries.append(entry)
                seq = entry.seq
        if not entries:
            return None
        self.queued = False
        self.cursor = Cursor(self.cursor.incarnation, seq)
        return Read(self.cursor, tuple(entries))

    def place(self, position: Position | None) -> None:
        """Where it stands in the queue now; None: it doesn't wait."""
        self.queued = position is not None
        self._position = position
        self._changed.set()

    def take_position(self) -> Position | None:
        """Its place, if it differs from the one taken last."""
        if self._position is None or self._position == self._shown:
            return None
        self._shown = self._position
        return self._shown

    async def wait(self, timeout_s: float) -> bool:
        """Wait until something arrives; False if the time is up."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def heard(self) -> None:
        """All that arrived was looked at."""
        self._changed.clear()


def has_end(read: Read) -> bool:
    """Whether `read` holds the terminal event."""
    if read.entries:
        return is_terminal(read.entries[-1].event)
    return read.reset is not None and read.reset.terminal is not None
