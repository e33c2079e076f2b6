"""From the text of a generation to typed deltas: the parser between an engine's events and readers.

Nothing of it is in the log. After an engine's death the next one reads the published tokens' text
again, without a word, and is where the first one was; so ids of calls depend on the generation
alone.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from inference.protocol.events import (
    CallRef,
    Delta,
    DeltaKind,
    Event,
    Finished,
    is_terminal,
)
from inference.text.answer.events import (
    AnswerEvent,
    CallArguments,
    CallEnd,
    CallStart,
    Reasoning,
    Text,
)
from inference.text.answer.parser import AnswerParser

ID_CHARS = 24
NO_TOKENS = Delta("", ())


class AnswerReader:
    """Takes one generation's events in order. With `one_call` further calls are left out."""

    def __init__(self, parser: AnswerParser, *, one_call: bool = False) -> None:
        self._parser = parser
        self._one_call = one_call
        self._num_complete = 0

    def skip(self, text: str) -> None:
        """Read what an earlier engine published."""
        self._seen(self._parser.push(text))

    def read(self, event: Event) -> list[Event]:
        """What readers of the log see of `event`."""
        if isinstance(event, Delta) and event.kind == "content":
            return self._deltas(self._parser.push(event.text), event)
        if not is_terminal(event):
            return [event]
        reason = event.reason if isinstance(event, Finished) else "length"
        rest = self._deltas(self._parser.finish(reason), NO_TOKENS)
        if isinstance(event, Finished) and reason == "stop" and self._num_complete:
            event = replace(event, reason="tool_calls")
        return [*rest, event]

    def _deltas(self, events: Sequence[AnswerEvent], raw: Delta) -> list[Event]:
        """The events as deltas; the first has the tokens of `raw`, which may not be the ones that
        its text is made of."""
        seen = self._seen(events)
        if not seen:
            return [replace(raw, text="")] if raw.token_ids or raw.logprobs else []
        return [_delta(event, NO_TOKENS if number else raw) for number, event in enumerate(seen)]

    def _seen(self, events: Sequence[AnswerEvent]) -> Sequence[AnswerEvent]:
        if self._one_call:
            events = [event for event in events if getattr(event, "index", 0) == 0]
        for event in events:
            if isinstance(event, CallEnd) and event.complete:
                self._num_complete += 1
        return events


def call_ids(generation_id: str) -> Callable[[], str]:
    """Makes ids for a generation's calls: in order the same ones, whoever makes them."""
    numbers = itertools.count()

    def make_id() -> str:
        digest = hashlib.sha256(f"{generation_id}/{next(numbers)}".encode()).hexdigest()
        return f"call_{digest[:ID_CHARS]}"

    return make_id


def _delta(event: AnswerEvent, raw: Delta) -> Delta:
    """The event as a delta with the tokens of `raw`; made once, as each token of each answer is."""
    text, kind, call = _parts(event)
    return Delta(text, raw.token_ids, raw.draws, kind, raw.logprobs, call, raw.timings)


def _parts(event: AnswerEvent) -> tuple[str, DeltaKind, CallRef | None]:
    if isinstance(event, Text):
        return event.text, "content", None
    if isinstance(event, Reasoning):
        return event.text, "reasoning", None
    if isinstance(event, CallArguments):
        return event.text, "tool_call", CallRef(event.index)
    if isinstance(event, CallStart):
        return "", "tool_call", CallRef(event.index, event.id, event.name)
    return "", "tool_call", CallRef(event.index, end="complete" if event.complete else "broken")
