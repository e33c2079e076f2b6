"""What tells that a model begins a call, and how the call goes on from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from inference.text.answer.families import AnswerFormat
from inference.text.answer.shapes import NAME, SOFT_PLACE, CallShape

SPACED = ("\n", "{", "[")  # where models differ in white space behind a marker


@dataclass(frozen=True)
class Waker:
    """One of `texts` begins a call of `shape`, anywhere ("word") or as the answer's first text
    ("start"). `spaced_behind`: the part of the shape's head that white space may follow."""

    texts: tuple[str, ...]
    shape: CallShape
    kind: Literal["word", "start"] = "word"
    spaced_behind: str = ""


def wakers_of(
    form: AnswerFormat, shape: CallShape, names: Sequence[str], opened: str
) -> list[Waker]:
    """All of a family's; of tools with these names. `opened`: markup at the prompt's end."""
    if not shape.awaits:
        return []
    found = [Waker(_named(wake.text, names), shape, wake.kind) for wake in shape.wakes]
    if opened and (rest := behind(shape, opened)) is not shape:
        text = SOFT_PLACE.split(rest.begin + rest.head)[0]
        found.append(Waker(_named(text, names), rest, "start"))
    if not found:
        sections = (section.opener for section in form.sections)
        whole = shape.begin + shape.head
        places = {
            whole.index(opener): opener
            for opener in (*sections, *form.calls_by_opener)
            if opener.strip() and opener in whole
        }
        found = [_cut(shape, place, opener) for place, opener in sorted(places.items())]
    return found


def behind(shape: CallShape, opened: str) -> CallShape:
    """The shape of calls that the prompt has begun already."""
    if not opened or not (shape.begin + shape.head).startswith(opened):
        return shape
    if shape.begin:
        return replace(shape, begin=shape.begin.removeprefix(opened))
    return replace(shape, head=shape.head.removeprefix(opened), between=None)


def _cut(shape: CallShape, place: int, opener: str) -> Waker:
    """Calls that begin at `place` of the shape, where `opener` stands."""
    begin, head = shape.begin, shape.head
    if place < len(begin):
        return Waker((opener,), replace(shape, begin=begin[place:]))
    cut = replace(shape, begin="", head=head[place - len(begin) :])
    is_spaced = cut.head[len(opener) :].startswith(SPACED)
    return Waker((opener,), cut, spaced_behind=opener if is_spaced else "")


def _named(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """The text with each of the names in it."""
    return tuple(text.replace(NAME, name) for name in names) if NAME in text else (text,)
