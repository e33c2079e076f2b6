"""Text of one sequence and the rules that end it, token by token.

Order: end token, stop string, `max_tokens`, end of the context. Held text is given out at every
end but a stop string's.
"""

from __future__ import annotations

from dataclasses import dataclass

from inference.protocol.events import FinishReason
from inference.protocol.params import Limits
from inference.text.detokenizer import Detokenizer
from inference.text.stop_strings import StopStrings
from inference.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Ended:
    """Why a sequence ended."""

    reason: FinishReason
    stop_string: str | None = None


class Answer:
    """What a sequence has said so far. `num_tokens` doesn't count an end token."""

    def __init__(self, tokenizer: Tokenizer, limits: Limits, *, room: int) -> None:
        """`room`: tokens of the context left behind the prompt."""
        self._tokenizer = tokenizer
        self._detokenizer = Detokenizer()
        self._stops = StopStrings(limits.stop)
        self._max_tokens = room if limits.max_tokens is None else min(limits.max_tokens, room)
        self.num_tokens = 0

    @property
    def is_full(self) -> bool:
        """Whether no token may follow."""
        return self.num_tokens >= self._max_tokens

    def push(self, token_id: int) -> tuple[str, Ended | None]:
        """Take a token in; return the text to show and the end, if this is it."""
        if self._tokenizer.is_end(token_id):
            return self._flush("", Ended("stop"))
        self.num_tokens += 1
        released = self._stops.push(self._detokenizer.push(self._tokenizer.piece(token_id)))
        if released.stop_string is not None:
            return released.text, Ended("stop", released.stop_string)
        if self.is_full:
            return self._flush(released.text, Ended("length"))
        return released.text, None

    def _flush(self, text: str, ended: Ended) -> tuple[str, Ended]:
        """All that is held; a truncated character at the end may still complete a stop string."""
        released = self._stops.push(self._detokenizer.flush())
        if released.stop_string is not None:
            return text + released.text, Ended("stop", released.stop_string)
        return text + released.text + self._stops.flush(), ended
