"""Writing Lark grammars of llguidance's for answers: texts with special tokens in them, named by
their ids, since no text matches those."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeAlias

from inference.text.answer.families import AnswerFormat
from inference.text.answer.harmony import END, FINAL, NEXT, THOUGHT
from llamaweb.lib.errors import InvalidError

MAX_CHARS = 64 * 1024  # of a grammar, as in the engine
SPACE = r"/[ \t\r\n]{0,4}/"
ANYTHING = r"/(.|\n)*/"
# The id of the token that a text is, if it is a special one; None for every other text.
SpecialToken: TypeAlias = Callable[[str], int | None]


class LarkWriter:
    """Pieces of one grammar in the vocabulary of `special`. Raises InvalidError where they become
    too long together; `rules` are those that pieces refer to."""

    def __init__(self, form: AnswerFormat, special: SpecialToken) -> None:
        self._form = form
        tokens = {marker: special(marker) for marker in form.markers}
        self._tokens = {marker: token for marker, token in tokens.items() if token is not None}
        # The longest first: of some the beginning is a marker too.
        markers = sorted(self._tokens, key=len, reverse=True)
        self._marker = re.compile("|".join(map(re.escape, markers)) or "(?!)")
        self.rules: list[str] = []
        self._num_chars = 0  # so far, or somewhat fewer

    def count(self, num_chars: int) -> None:
        """So much more is written."""
        self._num_chars += num_chars
        if self._num_chars > MAX_CHARS:
            raise too_long()

    def text(self, text: str) -> str:
        """`text` and nothing else."""
        return " ".join(map(_part, self._parts(text)))

    def until(self, name: str, closer: str) -> str:
        """Any text up to `closer`, and that; `name` is for a rule of its own."""
        first, *others = self._parts(closer)
        rest = " ".join(map(_part, others))
        if isinstance(first, int):
            return f"{ANYTHING} {_part(first)} {rest}"
        if others:  # only a token behind `first` tells that it closes: `</` may be text
            self.rules.append(f"{name.upper()}: {ANYTHING} {_part(first)}")
            self.count(len(self.rules[-1]))
            return f"{name.upper()} {rest}"
        self.rules.append(f"{name}[suffix={json.dumps(first)}]: {ANYTHING}")
        self.count(len(self.rules[-1]))
        return f"{name} {rest}"

    def thoughts(self, opened: str) -> str:
        """Reasoning as it may stand in front of everything else, "" if there is none; `opened`: see
        `AnswerFormat.opened_by`."""
        reasoning = self._form.reasoning
        if self._form.is_harmony:
            until = f"{self.until('thought', END)} {self.text(NEXT.removeprefix(END))}"
            return until if opened == THOUGHT else f"({self.text(THOUGHT)} {until})?"
        if reasoning is None:
            return ""
        until = f"{self.until('thought', reasoning.closer)} {SPACE}"
        if opened and opened.strip() == reasoning.opener.strip():
            return until
        return f"({self.text(reasoning.opener)} {until})?"

    def _parts(self, text: str) -> list[str | int]:
        if len(text) > MAX_CHARS:
            raise too_long()
        parts: list[str | int] = []
        start = 0
        for found in self._marker.finditer(text):
            parts += [text[start : found.start()], self._tokens[found[0]]]
            start = found.end()
        return [part for part in (*parts, text[start:]) if part != ""]


def front_of(form: AnswerFormat, *, opened: str, special: SpecialToken) -> str:
    """What may stand in front of an answer in a form of the client's, as `Grammar.front` wants it:
    reasoning, and what begins the answer behind it. "": nothing."""
    writer = LarkWriter(form, special)
    front = writer.thoughts(opened)
    if form.is_harmony:
        front = f"{front} {writer.text(FINAL)}"
    return "\n".join([f"front: {front}", *writer.rules]) if front else ""


def too_long() -> InvalidError:
    """The grammar of a request's tools passed its bound."""
    return InvalidError(
        f"make a grammar of more than {MAX_CHARS} characters, which is too long where a call is "
        "forced or stands beside a form",
        param="tools",
    )


def _part(part: str | int) -> str:
    return f"<[{part}]>" if isinstance(part, int) else json.dumps(part, ensure_ascii=False)
