"""What an answer is made of, in order, as it becomes certain.

A call has one `CallStart`, then `CallArguments` whose texts join to its JSON, then one `CallEnd`.
Calls never overlap; text and reasoning may stand between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """More of what the reader is told."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of what the model thought before it answered."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """The model calls the tool `name`; `index` counts the calls of an answer from 0."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the call's arguments, a JSON object once the call is complete."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """Nothing more of this call comes. Not `complete`: the answer was cut or broken inside it, and
    the arguments so far are no JSON; nobody should run it."""

    index: int
    complete: bool


AnswerEvent: TypeAlias = Text | Reasoning | CallStart | CallArguments | CallEnd


@dataclass(slots=True)
class Call:
    """A call as a whole."""

    id: str
    name: str
    arguments: str = ""
    complete: bool = False


@dataclass(slots=True)
class WholeAnswer:
    """The fold of an answer's events."""

    text: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)


def joined(events: Iterable[AnswerEvent]) -> list[AnswerEvent]:
    """The events with neighbours of one kind made one: the same for every cutting."""
    out: list[AnswerEvent] = []
    pieces: list[str] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, Text | Reasoning | CallArguments) and type(last) is type(event):
            pieces.append(event.text)
            continue
        _close(out, pieces)
        out.append(event)
    _close(out, pieces)
    return out


def _close(out: list[AnswerEvent], pieces: list[str]) -> None:
    if not pieces:
        return
    last = out[-1]
    if isinstance(last, Text):
        out[-1] = Text(last.text + "".join(pieces))
    elif isinstance(last, Reasoning):
        out[-1] = Reasoning(last.text + "".join(pieces))
    elif isinstance(last, CallArguments):
        out[-1] = CallArguments(last.index, last.text + "".join(pieces))
    pieces.clear()


def whole(events: Iterable[AnswerEvent]) -> WholeAnswer:
    """What a reader who waited for the end gets."""
    answer = WholeAnswer()
    texts: list[str] = []
    thoughts: list[str] = []
    arguments: list[list[str]] = []
    for event in events:
        if isinstance(event, Text):
            texts.append(event.text)
        elif isinstance(event, Reasoning):
            thoughts.append(event.text)
        elif isinstance(event, CallStart):
            answer.calls.append(Call(event.id, event.name))
            arguments.append([])
        elif isinstance(event, CallArguments):
            arguments[event.index].append(event.text)
        else:
            answer.calls[event.index].complete = event.complete
    answer.text, answer.reasoning = "".join(texts), "".join(thoughts)
    for call, pieces in zip(answer.calls, arguments, strict=True):
        call.arguments = "".join(pieces)
    return answer
