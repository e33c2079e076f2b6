"""The generations this process holds a lease on, and the log of each as published."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from inference.protocol.events import (
    Delta,
    DeltaKind,
    Event,
    Progress,
    Result,
    Snapshot,
    Started,
    Terminal,
    TokenLogprobs,
    Unknown,
)
from inference.queues.contract import Claim


@dataclass(slots=True)
class Log:
    """A generation's log in growing form: what `fold` computes, in constant time an event.

    Only the outlet thread touches it. `next_seq` is the seq of the next event to be written.
    """

    next_seq: int = 0
    started: Started | None = None
    progress: Progress | None = None
    parts: list[tuple[DeltaKind, list[str]]] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    draws: int = 0
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    result: Result | None = None
    terminal: Terminal | None = None

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> Log:
        """The log that `snapshot` stands for."""
        if snapshot is None:
            return cls()
        return cls(
            next_seq=snapshot.seq + 1,
            started=snapshot.started,
            progress=snapshot.progress,
            parts=[(kind, [text]) for kind, text in snapshot.parts],
            token_ids=list(snapshot.token_ids),
            draws=snapshot.draws,
            logprobs=list(snapshot.logprobs),
            result=snapshot.result,
            terminal=snapshot.terminal,
        )

    def add(self, event: Event) -> None:
        """Append one event."""
        self.next_seq += 1
        if isinstance(event, Delta):
            self.token_ids.extend(event.token_ids)
            self.logprobs.extend(event.logprobs)
            self.draws += event.draws
            if event.text:
                if not self.parts or self.parts[-1][0] != event.kind:
                    self.parts.append((event.kind, []))
                self.parts[-1][1].append(event.text)
        elif isinstance(event, Started):
            self.started = self.started or event
        elif isinstance(event, Progress):
            self.progress = event
        elif isinstance(event, Result):
            self.result = event
        elif not isinstance(event, Unknown):
            self.terminal = event

    def snapshot(self) -> Snapshot:
        """The fold of all events so far."""
        return Snapshot(
            seq=self.next_seq - 1,
            started=self.started,
            progress=self.progress,
            parts=tuple((kind, "".join(texts)) for kind, texts in self.parts),
            token_ids=tuple(self.token_ids),
            draws=self.draws,
            logprobs=tuple(self.logprobs),
            result=self.result,
            terminal=self.terminal,
        )


@dataclass(slots=True)
class Running:
    """One leased generation. `resumed`: an earlier engine published part of it."""

    claim: Claim
    log: Log

    @property
    def resumed(self) -> bool:
        """Whether readers have seen its start already."""
        return self.claim.resume is not None and self.claim.resume.started is not None


@dataclass(frozen=True, slots=True)
class LeaseEvent:
    """An event and the lease it was made under; events of an older lease are never written."""

    generation_id: str
    epoch: int
    event: Event


class RunningSet:
    """Leased generations by id; safe from all threads of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: dict[str, Running] = {}

    def add(self, claim: Claim) -> Running:
        """Take a claim in; a claim on an id that is here already replaces the older lease."""
        running = Running(claim, Log.of(claim.resume))
        with self._lock:
            self._by_id[claim.request.generation_id] = running
        return running

    def get(self, generation_id: str) -> Running | None:
        """The lease on `generation_id`, if it is still ours."""
        with self._lock:
            return self._by_id.get(generation_id)

    def remove(self, generation_id: str, epoch: int) -> None:
        """Forget the lease, unless a newer one took its place."""
        with self._lock:
            running = self._by_id.get(generation_id)
            if running is not None and running.claim.epoch == epoch:
                del self._by_id[generation_id]

    def epochs(self) -> tuple[tuple[str, int], ...]:
        """(generation id, epoch) of every lease."""
        with self._lock:
            return tuple((gid, running.claim.epoch) for gid, running in self._by_id.items())

    def __len__(self) -> int:
        with self._lock:
            return len(self._by_id)

    def __iter__(self) -> Iterator[Running]:
        """Every lease that is held now; changes meanwhile don't disturb the walk."""
        with self._lock:
            return iter(list(self._by_id.values()))
