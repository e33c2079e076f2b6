"""The generations this process holds a lease on, and the log of each as published."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

from inference.protocol.events import Event
from inference.protocol.fold import EMPTY, Log
from inference.queues.contract import Claim
from inference.text.answer.reader import AnswerReader


@dataclass(slots=True)
class Running:
    """One leased generation. `resumed`: an earlier engine published part of it.

    `reader` takes its text apart; None: its events are published as they are.
    """

    claim: Claim
    log: Log
    reader: AnswerReader | None = None

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
        running = Running(claim, Log.of(claim.resume or EMPTY))
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
