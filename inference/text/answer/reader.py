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

from inference.protocol.events import CallRef, Delta, Event, Finished, is_terminal
from inference.text.answer.events import AnswerEvent, CallArguments, CallEnd, CallStart, Reasoning
from inference.text.answer.parser import AnswerParser

ID_CHARS = 24


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
            return [*self._deltas(self._parser.push(event.text), event)]
        if not is_terminal(event):
            return [event]
        reason = event.reason if isinstance(event, Finished) else "length"
        rest = self._deltas(self._parser.finish(reason), Delta("", ()))
        if isinstance(event, Finished) and reason == "stop" and self._num_complete:
            event = replace(event, reason="tool_calls")
        return [*rest, event]

    def _deltas(self, events: Sequence[AnswerEvent], raw: Delta) -> list[Delta]:
        """The events as deltas; the first has the tokens of `raw`, which may not be the ones that
        its text is made of."""
        deltas = [_delta(event) for event in self._seen(events)]
        if not deltas:
            return [replace(raw, text="")] if raw.token_ids or raw.logprobs else []
        first = replace(deltas[0], token_ids=raw.token_ids, draws=raw.draws, logprobs=raw.logprobs)
        return [first, *deltas[1:]]

    def _seen(self, events: Sequence[AnswerEvent]) -> Sequence[AnswerEvent]:
        if self._one_call:
            events = [event for event in events if getattr(event, "index", 0) == 0]
        self._num_complete += sum(isinstance(e, CallEnd) and e.complete for e in events)
        return events


def call_ids(generation_id: str) -> Callable[[], str]:
    """Makes ids for a generation's calls: in order the same ones, whoever makes them."""
    numbers = itertools.count()

    def make_id() -> str:
        digest = hashlib.sha256(f"{generation_id}/{next(numbers)}".encode()).hexdigest()
        return f"call_{digest[:ID_CHARS]}"

    return make_id


def _delta(event: AnswerEvent) -> Delta:
    if isinstance(event, CallStart):
        call = CallRef(event.index, event.id, event.name)
        return Delta("", (), kind="tool_call", call=call)
    if isinstance(event, CallArguments):
        return Delta(event.text, (), kind="tool_call", call=CallRef(event.index))
    if isinstance(event, CallEnd):
        call = CallRef(event.index, end="complete" if event.complete else "broken")
        return Delta("", (), kind="tool_call", call=call)
    return Delta(event.text, (), kind="reasoning" if isinstance(event, Reasoning) else "content")
