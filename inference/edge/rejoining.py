"""One answer for a reader who has seen its beginning: what is still to be told, and what isn't.

Everything is folded from the log's start, for what comes next may depend on it; only what the
reader lacks is told. A step in which the reader's place lies is told in two.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from inference.edge.places import Counter, Place, head_of, split
from inference.edge.steps import LOST_LOG, Broken, End, Piece, Prefill, Step, Steps
from inference.protocol.events import CallRef, Delta, Entry, Snapshot

START: Final = Place()


@dataclass(frozen=True, slots=True)
class Seen:
    """What a reader has: the answer up to `place`, `skip` frames of the step behind it, and the
    frames of progress up to number `sub` of entry `seq`. `is_all`: all of it, whatever that is."""

    place: Place = START
    skip: int = 0
    seq: int = -1
    sub: int = -1
    is_all: bool = False


ALL_SEEN: Final = Seen(is_all=True)


@dataclass(frozen=True, slots=True)
class Told:
    """A step with the places in front of it and behind. `is_hidden`: the reader has it; else
    `skip`: how many of its frames they have."""

    step: Step
    before: Place
    after: Place
    is_hidden: bool = False
    skip: int = 0


class Account:
    """Folds one generation, from its log's first entry on, for one reader."""

    def __init__(self, seen: Seen | None = None) -> None:
        self._steps = Steps()
        self._counter = Counter()
        self._seen = seen
        self._seq = -1
        self._num_ids = 0  # of tokens in the entries so far
        self._num_logprobs = 0

    @property
    def is_over(self) -> bool:
        """Whether its last step was told."""
        return self._steps.is_over

    @property
    def place(self) -> Place:
        """Behind all steps so far."""
        return self._counter.place

    @property
    def skip(self) -> int:
        """Frames behind the end of all that the reader has."""
        seen = self._seen
        return seen.skip if seen is not None and seen.place.atoms == self.place.atoms else 0

    def lose(self) -> list[Told]:
        """The log is gone."""
        self._steps.is_over = True
        return self._tell([Broken(LOST_LOG)], self._seq)

    def feed(self, entry: Entry) -> list[Told]:
        """What an entry tells; see `Steps.feed`."""
        if entry.seq <= self._seq:
            return []
        self._seq = entry.seq
        event = entry.event
        told: list[Told] = []
        if isinstance(event, Delta):
            if (parts := self._split(event)) is not None:
                told = self._tell(self._steps.part(parts[0]), entry.seq)
                entry = Entry(entry.seq, parts[1])
            self._num_ids += len(event.token_ids)
            self._num_logprobs += len(event.logprobs)
        return told + self._tell(self._steps.feed(entry), entry.seq)

    def reset(self, snapshot: Snapshot) -> list[Told]:
        """What comes between the steps so far and the end of `snapshot`; see `Steps.reset`."""
        if snapshot.seq < self._seq:
            return []
        self._seq = snapshot.seq
        told: list[Told] = []
        seen = self._seen
        if seen is not None and not seen.is_all and self.place.atoms < seen.place.atoms:
            ids = max(seen.place.token_ids, self._num_ids)
            logprobs = max(seen.place.logprobs, self._num_logprobs)
            head = head_of(snapshot, Place(seen.place.atoms, ids, logprobs))
            told = self._tell(self._steps.reset(head), snapshot.seq)
        told += self._tell(self._steps.reset(snapshot), snapshot.seq)
        self._num_ids, self._num_logprobs = len(snapshot.token_ids), len(snapshot.logprobs)
        return told

    def _split(self, delta: Delta) -> tuple[Delta, Delta] | None:
        """`delta` in two, if the reader's place is inside, or at its end with tokens to come."""
        seen = self._seen
        if seen is None or seen.is_all:
            return None
        call = delta.call
        begins = self._counter.begins_part(delta.kind, call)
        ends = call is not None and call.end is not None
        wanted = seen.place.atoms - self.place.atoms - begins
        num_ids = max(0, seen.place.token_ids - self._num_ids)
        num_logprobs = max(0, seen.place.logprobs - self._num_logprobs)
        has_more = num_ids < len(delta.token_ids) or num_logprobs < len(delta.logprobs)
        # Only a call can have begun without a character.
        least, most = int(call is None or not begins), len(delta.text) + ends
        if not least <= wanted <= most or (wanted == most and not has_more):
            return None
        return split(delta, wanted, num_ids, num_logprobs)

    def _tell(self, steps: Iterable[Step], seq: int) -> list[Told]:
        told = []
        for step in itertools.chain.from_iterable(map(_plain, steps)):
            before = self._counter.place
            told.append(self._told(step, before, self._counter.add(step), seq))
        return told

    def _told(self, step: Step, before: Place, after: Place, seq: int) -> Told:
        seen = self._seen
        if seen is None:
            return Told(step, before, after)
        if seen.is_all:
            return Told(step, before, after, is_hidden=True)
        if isinstance(step, Prefill):
            is_hidden = before.atoms < seen.place.atoms or seq < seen.seq
            return Told(step, before, after, is_hidden, seen.sub + 1 if seq == seen.seq else 0)
        has_too_much = isinstance(step, End | Broken) and after.atoms < seen.place.atoms
        if has_too_much or (isinstance(step, Broken) and step.end is LOST_LOG):
            self._seen = None
            return Told(Broken(LOST_LOG), before, after)
        if after.atoms <= seen.place.atoms:
            return Told(step, before, after, is_hidden=True)
        self._seen = None
        return Told(step, before, after, skip=seen.skip)


def _plain(step: Step) -> list[Step]:
    """`step`, and the end of a tool call behind its last text by itself: so the frame with a
    piece's text is its last, and whoever lacks that one has nothing of the text."""
    call = step.call if isinstance(step, Piece) else None
    if not isinstance(step, Piece) or call is None or call.end is None or not step.text:
        return [step]
    text = replace(step, call=replace(call, end=None))
    return [text, Piece(step.kind, "", call=CallRef(call.index, end=call.end))]
