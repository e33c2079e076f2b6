"""A generation's log as the steps of a reply, whatever the API family.

A pure fold from seq 0: the steps depend on the log alone, so a stream that is taken up again is
the same, byte for byte, and streamed and whole replies come from the same code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from inference.protocol.events import (
    CallRef,
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
from inference.protocol.fold import Log

LOST_LOG = Failed(
    "engine_failed",
    "the server lost a part of this answer; please ask again",
    retryable=True,
)


@dataclass(frozen=True, slots=True)
class Begin:
    """A slot took the request, whose prompt has so many tokens, `cached_tokens` of them read."""

    prompt_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Prefill:
    """`done` of `total` prompt tokens are read, `cached` of them without work."""

    done: int
    total: int
    cached: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Text with its tokens and their log probabilities; empty only where `call` says something:
    where a tool call begins or ends. `timings`: up to here, if they are wanted."""

    kind: DeltaKind
    text: str
    logprobs: tuple[TokenLogprobs, ...] = ()
    call: CallRef | None = None
    token_ids: tuple[int, ...] = ()
    timings: Timings | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The answer is complete. `logprobs` and `token_ids`: of tokens whose text was nothing, the
    ids also of a stop string's. `stop_string`: the one that ended it; `truncated`: the context was
    full."""

    reason: FinishReason
    usage: Usage
    timings: Timings
    logprobs: tuple[TokenLogprobs, ...] = ()
    stop_string: str | None = None
    truncated: bool = False
    token_ids: tuple[int, ...] = ()


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
        self._sent = Log()
        self._num_logprobs = 0
        self._held_logprobs: list[TokenLogprobs] = []
        self._num_ids = 0
        self._held_ids: list[int] = []

    def feed(self, entry: Entry) -> list[Step]:
        """The steps of one entry; entries already seen give none."""
        if self.is_over or entry.seq <= self._seq:
            return []
        self._seq = entry.seq
        return list(self._event_steps(entry.event))

    def part(self, event: Event) -> list[Step]:
        """The steps of the first part of an entry that was split; `feed` the rest of it."""
        return [] if self.is_over else list(self._event_steps(event))

    def reset(self, snapshot: Snapshot) -> list[Step]:
        """The steps between what was seen and `snapshot`; the last is Broken if they don't join."""
        if self.is_over or snapshot.seq < self._seq:
            return []
        self._seq = snapshot.seq
        steps: list[Step] = []
        if snapshot.started is not None:
            steps += self._event_steps(snapshot.started)
        rest = _rest_of(snapshot, self._sent.snapshot())
        if rest is None or len(snapshot.logprobs) < self._num_logprobs:
            self.is_over = True
            return [*steps, Broken(LOST_LOG)]
        self._hold(snapshot.logprobs[self._num_logprobs :], snapshot.token_ids[self._num_ids :])
        steps += map(self._piece, rest)
        if snapshot.terminal is not None:
            steps += self._event_steps(snapshot.terminal)
        return steps

    def _event_steps(self, event: Event) -> Iterator[Step]:
        if isinstance(event, Started):
            if not self._has_begun:
                self._has_begun = True
                self._cached = event.cached_tokens
                yield Begin(event.prompt_tokens, event.cached_tokens)
        elif isinstance(event, Progress):
            if not self._sent.parts:  # an answer that goes on after an engine's death is read again
                yield Prefill(event.done, event.total, self._cached)
        elif isinstance(event, Delta):
            self._hold(event.logprobs, event.token_ids)
            if event.text or event.call is not None:
                yield self._piece(event)
        elif isinstance(event, Finished):
            self.is_over = True
            # The tokens of a stop string are no part of the answer, nor are their probabilities.
            left = () if event.stop_string is not None else tuple(self._held_logprobs)
            yield End(
                event.reason,
                event.usage,
                event.timings,
                left,
                event.stop_string,
                event.truncated,
                tuple(self._held_ids),
            )
        elif isinstance(event, Failed | Cancelled):
            self.is_over = True
            yield Broken(event)

    def _hold(self, logprobs: Sequence[TokenLogprobs], token_ids: Sequence[int]) -> None:
        self._held_logprobs += logprobs
        self._num_logprobs += len(logprobs)
        self._held_ids += token_ids
        self._num_ids += len(token_ids)

    def _piece(self, delta: Delta) -> Piece:
        logprobs: tuple[TokenLogprobs, ...] = ()
        if delta.text or (delta.call is not None and delta.call.id):  # it shows something
            logprobs, self._held_logprobs = tuple(self._held_logprobs), []
        token_ids, self._held_ids = tuple(self._held_ids), []
        self._sent.add(Delta(delta.text, (), kind=delta.kind, call=delta.call))
        return Piece(delta.kind, delta.text, logprobs, delta.call, token_ids, delta.timings)


def _rest_of(whole: Snapshot, sent: Snapshot) -> list[Delta] | None:
    """What of `whole` wasn't sent, or None if it doesn't begin with what was."""
    num_sent = len(sent.parts)
    if len(whole.parts) < num_sent:
        return None
    rest: list[Delta] = []
    num_calls = 0
    for index, (kind, text) in enumerate(whole.parts):
        old_kind, old_text = sent.parts[index] if index < num_sent else (kind, "")
        is_growing = index >= num_sent - 1
        if old_kind != kind or not text.startswith(old_text):
            return None
        left = text[len(old_text) :]
        if left and not is_growing:
            return None
        call: CallRef | None = None
        if kind == "tool_call" and num_calls < len(whole.calls):
            call = whole.calls[num_calls]
            if num_calls < len(sent.calls):
                old = sent.calls[num_calls]
                if (old.id, old.name) != (call.id, call.name):
                    return None
                call = CallRef(call.index, end=call.end if old.end is None else None)
            num_calls += 1
        if left or (call is not None and (call.id or call.end)):
            rest.append(Delta(left, (), kind=kind, call=call))
    return rest
