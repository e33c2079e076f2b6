"""A place in the header of a file, which never goes past what is there or may be read."""

from __future__ import annotations

import os
import struct
from typing import Final

from inference.registry.gguf.errors import GgufError, check_count

MAX_HEADER_BYTES: Final = 256 * 1024 * 1024  # the largest vocabularies take some 20 MiB
WINDOW_BYTES: Final = 1024 * 1024

SCALARS: Final = {
    0: struct.Struct("<B"), 1: struct.Struct("<b"), 2: struct.Struct("<H"), 3: struct.Struct("<h"),
    4: struct.Struct("<I"), 5: struct.Struct("<i"), 6: struct.Struct("<f"), 7: struct.Struct("<?"),
    10: struct.Struct("<Q"), 11: struct.Struct("<q"), 12: struct.Struct("<d"),
}  # fmt: skip
U32: Final = SCALARS[4]
U64: Final = SCALARS[10]


class Cursor:
    """Reads the file behind a descriptor from its start, a window at a time.

    Args:
        size: bytes of the file.

    `subject`: what is being read, for messages.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._limit = min(size, MAX_HEADER_BYTES)
        self._is_capped = size > MAX_HEADER_BYTES
        self._window = b""
        self._start = 0  # of the window, in the file
        self._next = 0  # in the window
        self.subject = ""

    @property
    def offset(self) -> int:
        """Bytes of the file that lie behind."""
        return self._start + self._next

    @property
    def left(self) -> int:
        """Bytes that may still be read."""
        return self._limit - self.offset

    def scalar(self, form: struct.Struct) -> int | float | bool:
        """The number here.

        Raises:
            GgufError: there is none, as of all that reads or skips.
        """
        value: int | float | bool = form.unpack(self.take(form.size))[0]
        return value

    def u32(self) -> int:
        """The 32-bit number here."""
        return int(self.scalar(U32))

    def u64(self) -> int:
        """The 64-bit number here."""
        return int(self.scalar(U64))

    def text(self, limit: int, what: str) -> bytes:
        """The text here, of at most `limit` bytes."""
        length = self.u64()
        check_count(f"bytes in {what} (byte {self.offset - 8:,})", length, limit)
        return self.take(length)

    def take(self, count: int) -> bytes:
        """The next bytes."""
        self._check(count)
        if len(self._window) - self._next < count:
            self._refill(max(count, WINDOW_BYTES))
        taken = self._window[self._next : self._next + count]
        if len(taken) != count:  # it was cut since its size was asked for
            raise GgufError(self._cut_off())
        self._next += count
        return taken

    def skip(self, count: int) -> None:
        """Leave out the next bytes."""
        self._check(count)
        self._next += count
        if self._next > len(self._window):
            self._start, self._next, self._window = self.offset, 0, b""

    def skip_texts(self, count: int) -> None:
        """Leave out that many texts: hundreds of thousands in a vocabulary."""
        unpack, window, place = U64.unpack_from, self._window, self._next
        while count:
            last = len(window) - 8
            while count and place <= last:
                end: int = place + 8 + unpack(window, place)[0]
                if end > last + 8:
                    break
                place, count = end, count - 1
            self._next = place
            if count:  # one that reaches over the window's end
                self.skip(self.u64())
                count -= 1
                window, place = self._window, self._next

    def _refill(self, count: int) -> None:
        self._start, self._next = self.offset, 0
        end = min(self._start + count, self._limit)
        pieces: list[bytes] = []
        place = self._start
        while place < end and (piece := os.pread(self._descriptor, end - place, place)):
            pieces.append(piece)
            place += len(piece)
        self._window = b"".join(pieces)

    def _check(self, count: int) -> None:
        if count > self.left:
            raise GgufError(self._cut_off())

    def _cut_off(self) -> str:
        place = f"at byte {self.offset:,}" + (f", in {self.subject}" if self.subject else "")
        if self._is_capped:
            return f"the header is longer than {MAX_HEADER_BYTES >> 20} MiB ({place})"
        return f"the file is cut off within its header, {place}"
