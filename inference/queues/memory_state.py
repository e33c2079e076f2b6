"""One generation as the in-memory queue keeps it: its state, its lease and its log."""

from __future__ import annotations

from dataclasses import dataclass, field

from inference.protocol.codec import encode_event
from inference.protocol.events import (
    CancelledBy,
    Delta,
    Entry,
    Event,
    Snapshot,
    Started,
    Usage,
    is_terminal,
)
from inference.protocol.fold import EMPTY, fold
from inference.protocol.requests import EngineRequest
from inference.queues.contract import Append, AppendOutcome, Cursor, Read, State
from inference.queues.facts import WaitingLane, lane_of, on_finish_of
from inference.queues.fairness import Place


@dataclass(slots=True)
class Generation:
    """One generation. Times in milliseconds of the queue's clock.

    `folded` stands for all events before `entries`, which come with their size in bytes.
    """

    request: EngineRequest
    number: int
    incarnation: int
    submitted: int
    deadline: int
    state: State = "queued"
    place: Place = "interactive"
    engine: str = ""
    epoch: int = 0
    lease_till: int = 0
    lease_stretched: bool = False  # since it was renewed, see `Model.awake`
    deaths: int = 0
    alone: bool = False
    cancel: CancelledBy | None = None
    reasoning_ended: bool = False
    reader_till: int | None = None
    reader_stretched: bool = False
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
    def owner(self) -> str:
        """Whose turn it takes."""
        return self.request.owner_key

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
    def log(self) -> Snapshot | None:
        """The fold of all events, None without one."""
        log = fold(self.folded, (entry for entry, _ in self.entries))
        return log if log.seq >= 0 else None

    def renew_lease(self, till: int) -> None:
        """Its engine lives."""
        self.lease_till, self.lease_stretched = till, False

    def renew_reader(self, till: int) -> None:
        """Its reader lives."""
        self.reader_till, self.reader_stretched = till, False

    def stretch(self, lease_till: int, reader_till: int) -> None:
        """Give its leases more time, once until they are renewed."""
        if not self.lease_stretched:
            self.lease_till, self.lease_stretched = lease_till, True
        if self.reader_till is not None and not self.reader_stretched:
            self.reader_till, self.reader_stretched = reader_till, True

    def has_no_reader(self, now: int) -> bool:
        """Whether its reader lease has expired."""
        return self.reader_till is not None and self.reader_till <= now

    def is_held_by(self, engine_id: str, epoch: int) -> bool:
        """Whether this lease is the valid one."""
        return self.state == "running" and self.engine == engine_id and self.epoch == epoch

    def write(self, event: Event) -> None:
        """Append one event and count its tokens."""
        entry = Entry(self.last_seq + 1, event)
        self.entries.append((entry, len(encode_event(event).encode())))
        usage = self.usage
        if isinstance(event, Delta):
            done = usage.completion_tokens + len(event.token_ids)
            self.usage = Usage(usage.prompt_tokens, done, usage.cached_tokens)
        elif isinstance(event, Started) and not usage.prompt_tokens:
            self.usage = Usage(event.prompt_tokens, usage.completion_tokens, event.cached_tokens)

    def append(self, item: Append, stream_bytes: int) -> AppendOutcome:
        """Write what isn't there yet of `item`, whose lease was checked."""
        wrong = item.incarnation != self.incarnation
        if wrong or item.first_seq > self.last_seq + 1:
            return "gap"
        for seq, event in enumerate(item.events, item.first_seq):
            if seq <= self.last_seq:
                continue
            self.write(event)
            if is_terminal(event):
                return "ok"
        return "full" if sum(size for _, size in self.entries) > stream_bytes else "ok"

    def has_end(self) -> bool:
        """Whether the log is complete."""
        return bool(self.entries) and is_terminal(self.entries[-1][0].event)

    def fold(self, snapshot: Snapshot) -> None:
        """Let `snapshot` stand for the entries up to its seq, if they are all there."""
        if self.folded.seq < snapshot.seq <= self.last_seq:
            self.folded = snapshot
            self.entries = [item for item in self.entries if item[0].seq > snapshot.seq]

    def read(self, cursor: Cursor, limit: int) -> Read:
        """What comes after `cursor`."""
        seq = cursor.seq
        other = seq >= 0 and cursor.incarnation != self.incarnation
        reset = self.folded if other or self.folded.seq > seq or seq > self.last_seq else None
        if reset is not None:
            seq = reset.seq
        entries = tuple(entry for entry, _ in self.entries if entry.seq > seq)[:limit]
        seq = entries[-1].seq if entries else seq
        return Read(Cursor(self.incarnation, seq), entries, reset)
