"""Reasoning within its budget: what ends it is said in the model's place, token by token.

The parser that takes answers apart tells what is reasoning, so that readers and budget are of one
mind; a call that is made in it is none of it, and is never cut. All of it follows from the tokens,
so an answer that goes on elsewhere is where it was; only the order to end has to be given again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set

from inference.engine.contract import Thoughts
from inference.engine.picks import Logits
from inference.text.answer.parser import AnswerParser
from inference.text.detokenizer import Detokenizer
from inference.text.tokenizer import Tokenizer

MAX_LATE = 16  # tokens that a marker's beginning may take


class ThoughtGuard:
    """A `Constraint` that allows everything and, at the budget's end, forces `Thoughts.closing`."""

    def __init__(
        self,
        thoughts: Thoughts,
        tokenizer: Tokenizer,
        *,
        opened: str = "",
        is_begun: bool = False,
        preserved: Set[int] = frozenset(),
        num_published: int = 0,
    ) -> None:
        """`opened`, `is_begun`, `preserved`: as in `SequenceRequest`. `num_published`: tokens of an
        earlier engine that will be accepted first; an order to end counts behind them."""
        form = thoughts.form if thoughts.form.calls_in_reasoning else thoughts.form.without_calls()
        self._parser = AnswerParser(
            form, tools=thoughts.tools, make_id=str, opened=opened, is_begun=is_begun
        )
        self._detokenizer = Detokenizer()
        self._tokenizer = tokenizer
        self._preserved = preserved
        self._closing = thoughts.closing
        self._left = thoughts.budget
        self._num_published = num_published
        self._is_ended = False
        self._thought: deque[int] = deque(maxlen=len(thoughts.closing))  # the last tokens of it
        self._num_late = 0  # tokens since there was nothing left
        self._behind = b""
        self._place: int | None = None  # in `closing`, of what is forced next
        self._look()

    @property
    def behind(self) -> bytes:
        """What the last token says behind the end of reasoning, if that is in it."""
        return self._behind

    @property
    def is_open(self) -> bool:
        """Whether reasoning goes on behind the last token."""
        return self._parser.is_thinking

    def end(self) -> None:
        """See `StepEngine.end_reasoning`."""
        self._is_ended = True
        if not self._num_published:
            self._left = 0
            self._look()

    def forced(self) -> int | None:
        """See `Constraint.forced`."""
        return None if self._place is None else self._closing[self._place]

    def allows(self, token_id: int) -> bool:
        """Everything is."""
        return True

    def mask(self, logits: Logits) -> None:
        """Nothing is masked."""

    def accept(self, token_id: int) -> None:
        """See `Constraint.accept`."""
        if self.is_open and not self._parser.is_calling:
            self._thought.append(token_id)
            if self._left:
                self._left -= 1
        piece = self._tokenizer.piece(token_id, special=token_id in self._preserved)
        self._read(self._detokenizer.push(piece))
        self._advance(token_id)
        if self._num_published:
            self._num_published -= 1
            if not self._num_published and self._is_ended:
                self._left = 0
        self._look()

    def close(self) -> None:
        """Nothing is held."""

    def _read(self, text: str) -> None:
        """Read on; in reasoning by characters, to see where it ends."""
        was_open = self.is_open
        while text and self.is_open:
            self._parser.push(text[0])
            text = text[1:]
        self._behind = text.encode() if was_open else b""
        self._parser.push(text)

    def _advance(self, token_id: int) -> None:
        """Go on in `closing`, if that was its token."""
        if self._place is None:
            return
        is_said = token_id == self._closing[self._place]
        self._place = self._place + 1 if is_said else None
        if self._place == len(self._closing):
            self._place = None
            if self.is_open:  # it didn't close anything, and wouldn't the next time
                self._left = None

    def _look(self) -> None:
        """Begin to end reasoning that has nothing left: between two characters, not inside a call,
        and not where the model may be doing so itself."""
        if not self.is_open or self._parser.is_calling:
            self._thought.clear()
            self._num_late = 0
        elif self._left == 0 and self._place is None:
            self._num_late += 1
            num_begun = self._num_begun()
            is_closing = self._parser.is_undecided and self._num_late <= MAX_LATE
            if num_begun or not (self._detokenizer.is_split or is_closing):
                self._place, self._num_late = num_begun, 0

    def _num_begun(self) -> int:
        """How many tokens of `closing` were said already."""
        said = tuple(self._thought)
        lengths = range(min(len(said), len(self._closing) - 1), 0, -1)
        return next((n for n in lengths if said[-n:] == self._closing[:n]), 0)
