"""Bytes of tokens to text, one token at a time, never splitting a character."""

from __future__ import annotations

import codecs


class Detokenizer:
    """An incremental UTF-8 decoder that never stalls.

    A byte sequence that can't become a character turns into one U+FFFD as soon as that is known;
    an unfinished character waits for its next byte. The joined result never depends on the cuts.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def is_split(self) -> bool:
        """Whether a character is unfinished."""
        return bool(self._decoder.getstate()[0])

    def push(self, piece: bytes) -> str:
        """Text that became certain with `piece`."""
        return self._decoder.decode(piece)

    def flush(self) -> str:
        """What is left at the end: "" or one U+FFFD for a truncated character."""
        return self._decoder.decode(b"", final=True)
