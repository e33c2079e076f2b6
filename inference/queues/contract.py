"""The promises of a queue. One suite of contract tests holds every implementation to them.

One queue per model config. A generation is `queued`, `running` (leased to one engine under an
epoch) or `ended`; it ends with exactly one terminal event, whoever writes it. All times that
decide anything are the queue's own (`now`), never a caller's.

Cursors: a position in a generation's log is (incarnation, seq). The incarnation changes only
when acknowledged entries were lost (Redis restarted and their engine gone), and readers of an
older one are reset from a snapshot. It is 1 unless something was, or may have been, lost; treat it
as opaque. Epochs only rise and are opaque too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from inference.protocol.events import CancelledBy, Entry, Event, Snapshot, Terminal
from inference.protocol.requests import EngineRequest

State: TypeAlias = Literal["queued", "running", "ended"]
ReasoningEnd: TypeAlias = Literal[
    "ok",
    "not_enabled",  # its request doesn't allow it
    "unknown",  # there is none of that owner that hasn't ended
]


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """Bounds and times of one queue. Seconds, bytes, counts.

    `max_queued` requests wait per model, `max_queued_per_owner` of one owner, which take up
    `max_queued_bytes_per_owner` of memory at most (as stored). `lease_s` is what an
    engine's heartbeat renews: it must be several times `heartbeat_s`. `reader_lease_s` must be
    several times `reader_renew_s` and, with one heartbeat added, stay within 5 s.
    After a silence of engines, readers and sweeps in which a renewed lease may have run out (the
    server was away), leases are stretched once before any is ended.
    `background_age_s`: a background request that waited this long is taken like an interactive one.
    `max_deaths`: engine deaths a request survives; a request that saw `max_deaths` of them runs
    alone. `stream_bytes`: at this size earlier deltas are folded into one snapshot.
    An ended log is kept for `ended_keep_s`, for `unfinalised_keep_s` while a job is to store it,
    and that of a request that needs no slot for `utility_keep_s`: its answer may be megabytes, and
    its one reader is there.
    `max_purges` orders to forget are kept for engines that are away, until none came for
    `purge_keep_s`. `max_usage`: ends that wait for the usage ledger; beyond, the oldest go.
    """

    max_queued: int = 256
    max_queued_per_owner: int = 64
    max_queued_bytes_per_owner: int = 32 * 1024 * 1024
    lease_s: float = 4.0
    heartbeat_s: float = 0.5
    reader_lease_s: float = 4.4
    reader_renew_s: float = 2.0
    background_age_s: float = 120.0
    max_deaths: int = 2
    stream_bytes: int = 4 * 1024 * 1024
    ended_keep_s: float = 300.0
    utility_keep_s: float = 30.0
    unfinalised_keep_s: float = 24 * 3600.0
    memory_refuse_ratio: float = 0.8
    max_purges: int = 256
    max_usage: int = 100_000
    purge_keep_s: float = 3600.0


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """Place in a log: everything up to `seq` of `incarnation` is known. seq -1: nothing yet."""

    incarnation: int = 1
    seq: int = -1


START = Cursor()
UTILITIES_A_CLAIM = 32  # requests that need no slot, handed out by one claim at most
SILENT_S = 5.0  # a heartbeat older than this says nothing any more
SUPERVISOR_ID = "supervisor"  # engine id under which the supervisor tells what it knows; no engine


@dataclass(frozen=True, slots=True)
class Position:
    """`ahead`: requests that will be claimed before this one if nothing changes (0 = next)."""

    ahead: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Status:
    """What is known of one generation. `position` only while queued; `ended_at`: wall time."""

    state: State
    incarnation: int
    last_seq: int
    deaths: int
    epoch: int
    position: Position | None = None
    cancel_requested: CancelledBy | None = None
    ended_at: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Claim:
    """A lease on one request. `resume` is the log so far (None: nothing was written yet).

    The engine goes on with seq `resume.seq + 1` (0 without one). `alone`: run with no other
    sequence in the batch. `queued_s`: time from submit to this claim. `reasoning_ended`: see
    `Queue.end_reasoning`.
    """

    request: EngineRequest
    epoch: int
    incarnation: int
    resume: Snapshot | None = None
    alone: bool = False
    queued_s: float = 0.0
    reasoning_ended: bool = False


@dataclass(frozen=True, slots=True)
class Append:
    """Events of one generation for one script call; `first_seq` numbers the first of them."""

    generation_id: str
    epoch: int
    incarnation: int
    first_seq: int
    events: tuple[Event, ...]


AppendOutcome: TypeAlias = Literal[
    "ok",  # written; entries that were there already are skipped (same seq), so a retry is safe
    "stale",  # the lease is another's or gone: stop the sequence, write nothing
    "gap",  # acknowledged entries are missing (Redis lost them): call restore, then append again
    "full",  # written, and the stream passed `stream_bytes`: call fold
]


@dataclass(frozen=True, slots=True)
class CachePurge:
    """What prompt caches are to forget: what is an owner's and of one of `conversations`; either
    alone is enough, neither means everything."""

    owner_key: str = ""
    conversations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Beat:
    """An engine's heartbeat. `steps` counts engine steps; `info` is shown to administrators.

    `mark` is that of the last reply; "": nothing is cached yet, so there is nothing to purge.
    """

    engine_id: str
    state: Literal["starting", "loading", "ready", "draining", "stopped"]
    steps: int = 0
    running: tuple[tuple[str, int], ...] = ()  # (generation_id, epoch)
    waiting_for_step: bool = False  # sequences are running and a step is due
    info: Mapping[str, float | int | str] = field(default_factory=dict)
    mark: str = ""


@dataclass(frozen=True, slots=True)
class BeatReply:
    """`lost`: leases that are no longer the engine's. `cancelled`: stop these and say so.

    `purges`: what was ordered since the beat's mark, in order; one of everything where that can't
    be told any more. `mark` is opaque. `reasoning_ended`: those whose reasoning is to end.
    """

    lost: tuple[str, ...] = ()
    cancelled: tuple[tuple[str, CancelledBy], ...] = ()
    purges: tuple[CachePurge, ...] = ()
    mark: str = field(default="", compare=False)
    reasoning_ended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The last heartbeat of an engine and its age in seconds."""

    engine_id: str
    state: str
    steps: int
    running: int
    age_s: float
    waiting_for_step: bool
    info: Mapping[str, float | int | str]

    @property
    def is_silent(self) -> bool:
        """Whether the heartbeat is too old to say anything."""
        return self.age_s >= SILENT_S


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a model is. `waiting_by_owner` is for administrators. `oldest_wait_s`: since the
    oldest that waits was submitted, those submitted to the background left out; 0 without one."""

    waiting: int
    waiting_background: int
    running: int
    waiting_by_owner: Mapping[str, int]
    oldest_wait_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Read:
    """What a reader gets after its cursor.

    `reset`: forget what you have, this is all up to its seq (the cursor was folded away or its
    incarnation is over). `gone`: nothing is kept of this generation; ask the database.
    """

    cursor: Cursor
    entries: tuple[Entry, ...] = ()
    reset: Snapshot | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Reaped:
    """What a sweep of the queue changed, by generation id."""

    requeued: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishedEntry:
    """An ended generation whose `on_finish` task has not acknowledged it yet."""

    generation_id: str
    on_finish: str


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """The end of a generation that somebody answers for, until it is in the usage ledger. `account`
    came with its request; `end` is the terminal event, Unknown if another version wrote it."""

    mark: str  # opaque, for `Queue.usage_ack`
    generation_id: str
    account: str
    end: Event
    ended_at: float


class Queue(Protocol):
    """All operations on the queue of `model`; each is one atomic step.

    The Redis implementation raises `UnavailableError` when the server can't be reached within
    its time-out; nothing else but what is listed.
    """

    # --- callers

    def submit(self, request: EngineRequest, *, reader_id: str | None = None) -> Position:
        """Put `request` in its queue; idempotent by `generation_id` (a repeat changes nothing).

        `reader_id` is the first reader lease of a request with `keep` False.

        Raises:
            BusyError: reason "queue_full", "owner_queue_full", "owner_queue_bytes" or "memory".
        """
        ...

    def cancel(self, model: str, generation_id: str, by: CancelledBy) -> bool:
        """Ask for the end. Queued: it ends now. Running: the engine is told.

        False: unknown or ended.
        """
        ...

    def end_reasoning(self, model: str, reply_id: str, owner_key: str) -> ReasoningEnd:
        """Have the reasoning of an owner's generations end that make up the reply `reply_id`: their
        engines learn it with the next heartbeat, later ones with the claim."""
        ...

    def status(self, model: str, generation_id: str) -> Status | None:
        """State and place in the queue, or None if nothing is known of it."""
        ...

    def read(self, model: str, generation_id: str, cursor: Cursor, *, limit: int = 512) -> Read:
        """What comes after `cursor`, without waiting."""
        ...

    def reader_renew(
        self, model: str, reader_id: str, generation_ids: Sequence[str]
    ) -> tuple[str, ...]:
        """Renew the reader lease of generations with `keep` False.

        Returns those that are unknown or ended.
        """
        ...

    def purge(self, model: str, purge: CachePurge) -> None:
        """Have every engine of `model` forget; each learns it with its next heartbeat.

        One that is away for longer than orders are kept forgets everything when it is back, and
        so does each after a restart of the server, which may have lost an order.
        """
        ...

    def load(self, model: str) -> Load:
        """How much waits and runs."""
        ...

    def engines(self, model: str) -> tuple[EngineStatus, ...]:
        """Heartbeats of all engines seen within the last minute."""
        ...

    def models(self) -> tuple[str, ...]:
        """Every model that has a queue."""
        ...

    # --- engines

    def claim(
        self,
        model: str,
        engine_id: str,
        *,
        slots: int,
        idle: bool,
        utilities: int = UTILITIES_A_CLAIM,
    ) -> tuple[Claim, ...]:
        """Lease up to `slots` requests, and up to `utilities` of those that need no slot.

        Order: handed-back and requeued ones first, then interactive round-robin by owner, then
        background likewise. A request to be run alone is given only to an `idle` engine, as the
        only claim; while it is next, an engine with slots that holds no answers gets nothing, to
        become idle. Cancelled, expired and readerless requests met on the way end here.
        """
        ...

    def append(
        self, model: str, engine_id: str, batch: Sequence[Append]
    ) -> tuple[AppendOutcome, ...]:
        """Write the events of one step, for all generations of `batch` in one atomic call.

        A terminal event ends the generation and its lease, and enters it in the finished set
        when it has `on_finish`. Terminal twice: "stale".
        """
        ...

    def fold(
        self, model: str, engine_id: str, generation_id: str, epoch: int, snapshot: Snapshot
    ) -> bool:
        """Replace the entries up to `snapshot.seq` by the snapshot.

        False: not the owner any more.
        """
        ...

    def restore(self, engine_id: str, claim: Claim, snapshot: Snapshot) -> bool:
        """Write a generation's log, up to `snapshot`, again after Redis lost some or all of it.

        Same incarnation and seqs, so readers notice nothing. False: somebody else owns it now.
        """
        ...

    def release(self, model: str, engine_id: str, generation_id: str, epoch: int) -> bool:
        """Hand a claim back unharmed: first in the queue again, no death counted."""
        ...

    def beat(self, model: str, beat: Beat) -> BeatReply:
        """Renew the engine's leases and learn what to stop and what to forget."""
        ...

    # --- sweep and supervisor

    def reap(self, model: str) -> Reaped:
        """Requeue expired leases (one death each; too many: Failed engine_crashed), end requests
        past their deadline, cancelled ones and those whose readers are gone."""
        ...

    def engine_gone(self, model: str, engine_id: str, *, death: bool = True) -> tuple[str, ...]:
        """Expire the leases of an engine known to be dead, at once; returns the generations."""
        ...

    def fail_queued(self, model: str, terminal: Terminal) -> tuple[str, ...]:
        """End everything that waits, because no engine can ever serve it."""
        ...

    def finished(self, *, limit: int = 100) -> tuple[tuple[str, FinishedEntry], ...]:
        """(model, entry) of ended generations not yet acknowledged, oldest first."""
        ...

    def finished_ack(self, model: str, generation_id: str) -> None:
        """The result is stored; the log lives `ended_keep_s` from now."""
        ...

    def usage(self, model: str, *, limit: int = 500) -> tuple[UsageEntry, ...]:
        """Ends that aren't acknowledged, oldest first: of each generation with an account one."""
        ...

    def usage_ack(self, model: str, marks: Sequence[str]) -> None:
        """These are in the ledger."""
        ...

    # --- waiting

    def wait_control(self, model: str, after: str, timeout_s: float) -> str:
        """Block until something changed for engines (new work, a cancel, a purge) since mark
        `after`, or the time is up; returns the new mark. "" = from now on. May return early."""
        ...
