"""What the in-memory queue knows of one model and of each generation."""

from __future__ import annotations

from dataclasses import dataclass, field

from inference.protocol.events import CancelledBy, Entry, Snapshot, Usage
from inference.protocol.fold import EMPTY
from inference.protocol.requests import EngineRequest
from inference.queues.contract import Beat, Position, State
from inference.queues.facts import WaitingLane, lane_of, on_finish_of
from inference.queues.fairness import Place, Waiting


@dataclass(slots=True)
class Generation:
    """One generation. Times in milliseconds of the queue's clock.

    `folded` stands for all events before `entries`, which come with their size in bytes.
    """

    request: EngineRequest
    number: int
    incarnation: int
    owner: str
    submitted: int
    deadline: int
    state: State = "queued"
    place: Place = "interactive"
    engine: str = ""
    epoch: int = 0
    lease_till: int = 0
    deaths: int = 0
    alone: bool = False
    queued: int = 0
    cancel: CancelledBy | None = None
    reader_till: int | None = None
    expires: int | None = None
    ended: int = 0
    acked: bool = False
    folded: Snapshot = EMPTY
    entries: list[tuple[Entry, int]] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)

    @property
    def id(self) -> str:
        """Its id."""
        return self.request.generation_id

    @property
    def lane(self) -> WaitingLane:
        """The lane it was submitted to."""
        return lane_of(self.request)

    @property
    def on_finish(self) -> str:
        """Task that stores the result, or ""."""
        return on_finish_of(self.request)

    @property
    def last_seq(self) -> int:
        """Seq of the newest event, -1 without one."""
        return self.entries[-1][0].seq if self.entries else self.folded.seq

    @property
    def size(self) -> int:
        """Bytes of the entries that aren't folded."""
        return sum(size for _, size in self.entries)


@dataclass(slots=True)
class Model:
    """The queue of one model."""

    generations: dict[str, Generation] = field(default_factory=dict)
    waiting: Waiting = field(default_factory=Waiting)
    engines: dict[str, tuple[int, Beat]] = field(default_factory=dict)  # when, what
    number: int = 0
    mark: int = 0

    def enqueue(self, generation: Generation, place: Place) -> None:
        """Let it wait at `place`."""
        generation.state, generation.place = "queued", place
        generation.engine, generation.alone = "", False
        self.waiting.push(place, generation.owner, generation.number, generation.id)

    def dequeue(self, generation: Generation) -> None:
        """It waits no longer."""
        self.waiting.remove(generation.place, generation.owner, generation.number, generation.id)

    def position(self, generation: Generation) -> Position:
        """Its place in the queue."""
        place = generation.place
        ahead = self.waiting.ahead(place, generation.owner, generation.number, generation.id)
        return Position(ahead, self.waiting.waiting(place))

    def in_state(self, state: State) -> list[Generation]:
        """Those in `state`, in the order of their submits."""
        found = (item for item in self.generations.values() if item.state == state)
        return sorted(found, key=lambda item: item.number)
