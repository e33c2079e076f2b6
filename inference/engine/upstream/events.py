"""Server-sent events of an answer, as they are cut by the network, to the data they carry."""

from __future__ import annotations

from collections.abc import Iterator

MAX_EVENT_BYTES = 1024 * 1024  # of one event: a token with its rivals has a few thousand


class UnreadableError(Exception):
    """What came is no answer of such a server; the message says what is wrong, never its text."""


class EventLines:
    """Takes pieces of any length and gives the data of each whole event."""

    def __init__(self) -> None:
        self._held = b""
        self._data: list[bytes] = []
        self._num_bytes = 0

    def feed(self, piece: bytes) -> Iterator[str]:
        """The data of the events that end in `piece`.

        Raises:
            UnreadableError: an event has more than `MAX_EVENT_BYTES`.
        """
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = self._held + lines[0]
            self._held = b""
        self._held += rest
        for line in lines:
            yield from self._line(line.removesuffix(b"\r"))
        self._bound(len(self._held))

    def close(self) -> Iterator[str]:
        """What stands at the end without the empty line behind it."""
        line, self._held = self._held, b""
        yield from self._line(line.removesuffix(b"\r"))
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[str]:
        self._bound(len(line))
        if not line:
            if self._data:
                yield b"\n".join(self._data).decode("utf-8", "replace")
            self._data, self._num_bytes = [], 0
        elif line.startswith((b"data:", b"error:")):  # llama-server says errors by such a line
            value = line.partition(b":")[2].removeprefix(b" ")
            self._data.append(value)
            self._num_bytes += len(value)

    def _bound(self, more: int) -> None:
        if self._num_bytes + more > MAX_EVENT_BYTES:
            raise UnreadableError(f"an event has more than {MAX_EVENT_BYTES:,} bytes")
