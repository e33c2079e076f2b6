"""Text of one sequence and the rules that end it, token by token.

Order: end token, indent, stop string, `max_tokens`, end of the context, time. Held text is given
out at every end but a stop string's.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from inference.protocol.events import FinishReason
from inference.protocol.params import Limits
from inference.text.detokenizer import Detokenizer
from inference.text.indent import MinIndent
from inference.text.stop_strings import Released, StopStrings
from inference.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Ended:
    """Why a sequence ended."""

    reason: FinishReason
    stop_string: str | None = None


class Answer:
    """What a sequence has said so far. `num_tokens` doesn't count an end token."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        limits: Limits,
        *,
        room: int,
        preserved: Set[int] = frozenset(),
        special: bool = False,
    ) -> None:
        """`room`: tokens of the context left behind the prompt. `preserved`: special tokens whose
        text is shown; `special`: that of all, and of the end token."""
        self._tokenizer = tokenizer
        self._preserved = preserved
        self._special = special
        self._detokenizer = Detokenizer()
        self._stops = StopStrings(limits.stop)
        self._indent = MinIndent(limits.min_indent) if limits.min_indent else None
        self._max_tokens = room if limits.max_tokens is None else min(limits.max_tokens, room)
        self.num_tokens = 0

    @property
    def is_full(self) -> bool:
        """Whether no token may follow."""
        return self.num_tokens >= self._max_tokens

    def push(self, token_id: int, *, is_late: bool = False) -> tuple[str, Ended | None]:
        """Take a token in; return the text to show and the end, if this is it.

        `is_late`: the time is over, so the next complete line is the last.
        """
        is_end = self._tokenizer.is_end(token_id)
        if is_end and not self._special:
            return self._flush("", Ended("stop"))
        self.num_tokens += not is_end
        is_shown = self._special or token_id in self._preserved
        piece = self._tokenizer.piece(token_id, special=is_shown)
        text, ended = self._shown(self._stops.push(self._detokenizer.push(piece)))
        if ended is not None:
            return text, ended
        if is_end:
            return self._flush(text, Ended("stop"))
        if self.is_full or (is_late and "\n" in text):
            return self._flush(text, Ended("length"))
        return text, None

    def release(self) -> str:
        """What was held because of stop strings, at an end from outside. An unfinished character
        is dropped: it wasn't the model that left it so."""
        return self._shown(Released(self._stops.flush()))[0]

    def _shown(self, released: Released) -> tuple[str, Ended | None]:
        text, is_cut = released.text, False
        if self._indent is not None:
            text, is_cut = self._indent.push(text)
        if is_cut:
            return text, Ended("length")
        if released.stop_string is not None:
            return text, Ended("stop", released.stop_string)
        return text, None

    def _flush(self, text: str, ended: Ended) -> tuple[str, Ended]:
        """All that is held; a truncated character at the end may still complete a stop string."""
        released = self._stops.push(self._detokenizer.flush())
        if released.stop_string is None:
            released = Released(released.text + self._stops.flush())
        rest, other = self._shown(released)
        return text + rest, other or ended
