"""A generation's log as the steps of a reply, whatever the API family.

A pure fold from seq 0: the steps depend on the log alone, so a stream that is taken up again is
the same, byte for byte, and streamed and whole replies come from the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from inference.protocol.events import (
    Cancelled,
    Delta,
    DeltaKind,
    Entry,
    Event,
    Failed,
    Finished,
    FinishReason,
    Progress,
    Snapshot,
    Started,
    Timings,
    TokenLogprobs,
    Usage,
)

LOST_LOG = Failed(
    "engine_failed",
    "the server lost a part of this answer; please ask again",
    retryable=True,
)


@dataclass(frozen=True, slots=True)
class Begin:
    """A slot took the request."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """`done` of `total` prompt tokens are read, `cached` of them without work."""

    done: int
    total: int
    cached: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Text, never empty, with the log probabilities of its tokens."""

    kind: DeltaKind
    text: str
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """The answer is complete. `logprobs`: of tokens whose text was nothing."""

    reason: FinishReason
    usage: Usage
    timings: Timings
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """The answer ends here, incomplete."""

    end: Failed | Cancelled


Step: TypeAlias = Begin | Prefill | Piece | End | Broken


class Steps:
    """Folds one generation. `is_over` after its last step; later entries are ignored."""

    def __init__(self) -> None:
        self.is_over = False
        self._seq = -1
        self._has_begun = False
        self._cached = 0
        self._sent: list[tuple[DeltaKind, str]] = []
        self._num_logprobs = 0
        self._held_logprobs: list[TokenLogprobs] = []

    def feed(self, entry: Entry) -> list[Step]:
        """The steps of one entry; entries already seen give none."""
        if self.is_over or entry.seq <= self._seq:
            return []
        self._seq = entry.seq
        return list(self._event_steps(entry.event))

    def reset(self, snapshot: Snapshot) -> list[Step]:
        """The steps between what was seen and `snapshot`; the last is Broken if they don't join."""
        if self.is_over or snapshot.seq < self._seq:
            return []
        self._seq = snapshot.seq
        steps: list[Step] = []
        if snapshot.started is not None:
            steps += self._event_steps(snapshot.started)
        rest = _rest_of(snapshot.parts, self._sent)
        if rest is None or len(snapshot.logprobs) < self._num_logprobs:
            self.is_over = True
            return [*steps, Broken(LOST_LOG)]
        self._hold(snapshot.logprobs[self._num_logprobs :])
        for kind, text in rest:
            steps.append(self._piece(kind, text))
        if snapshot.terminal is not None:
            steps += self._event_steps(snapshot.terminal)
        return steps

    def _event_steps(self, event: Event) -> Iterator[Step]:
        if isinstance(event, Started):
            if not self._has_begun:
                self._has_begun = True
                self._cached = event.cached_tokens
                yield Begin()
        elif isinstance(event, Progress):
            if not self._sent:  # an answer that goes on after an engine's death is read again
                yield Prefill(event.done, event.total, self._cached)
        elif isinstance(event, Delta):
            self._hold(event.logprobs)
            if event.text:
                yield self._piece(event.kind, event.text)
        elif isinstance(event, Finished):
            self.is_over = True
            # The tokens of a stop string are no part of the answer, nor are their probabilities.
            left = () if event.stop_string is not None else tuple(self._held_logprobs)
            yield End(event.reason, event.usage, event.timings, left)
        elif isinstance(event, Failed | Cancelled):
            self.is_over = True
            yield Broken(event)

    def _hold(self, logprobs: Iterable[TokenLogprobs]) -> None:
        held = list(logprobs)
        self._held_logprobs += held
        self._num_logprobs += len(held)

    def _piece(self, kind: DeltaKind, text: str) -> Piece:
        logprobs, self._held_logprobs = tuple(self._held_logprobs), []
        self._sent.append((kind, text))
        return Piece(kind, text, logprobs)


def _rest_of(
    parts: Iterable[tuple[DeltaKind, str]], sent: list[tuple[DeltaKind, str]]
) -> list[tuple[DeltaKind, str]] | None:
    """What of `parts` wasn't sent, or None if they don't begin with what was."""
    left = list(sent)
    rest: list[tuple[DeltaKind, str]] = []
    for kind, text in parts:
        while left and text:
            sent_kind, sent_text = left[0]
            if sent_kind != kind or not text.startswith(sent_text):
                return None
            text = text[len(sent_text) :]
            left.pop(0)
        if text:
            rest.append((kind, text))
    return None if left else rest
