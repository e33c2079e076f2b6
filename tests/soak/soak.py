"""An engine process's whole inside under random traffic for a while: does anything stay behind?

A worker with its threads, on the in-memory queue, in this process. Traffic comes in waves; between
two waves everything has ended, and then nothing may be held but what the prompt cache says.
"""

from __future__ import annotations

import gc
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

from inference.engine.engine import Engine
from inference.engine.joint import JointEngine
from inference.protocol.events import Cancelled, Event, Failed, Finished
from inference.protocol.fold import EMPTY, fold
from inference.protocol.spec import EngineSpec
from inference.queues.contract import START, CachePurge, QueueConfig
from inference.queues.memory import MemoryQueue
from inference.worker.main import Worker
from tests.soak.holdings import Holdings, counted
from tests.soak.memory import MIB, memory_mib
from tests.soak.traffic import MODEL, Traffic
from tests.stack import wait_for

CONFIG = QueueConfig(ended_keep_s=2.0, heartbeat_s=0.25)
TICK_S = 0.05
START_S, IDLE_S = 120.0, 180.0
PATIENCE_S = 20.0  # for what runs when a wave ends; then it is cancelled
CROWDS = (1, 3, 8, 16, 24)  # requests at a time
CROWD_S = 5.0
CANCEL_SHARE, PURGE_SHARE = 0.01, 0.005  # of ticks
MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and on what. A sample is taken about every `interval_s`."""

    spec: EngineSpec
    seed: int
    duration_s: float
    interval_s: float


@dataclass(frozen=True, slots=True)
class Sample:
    """The process while nobody asks for anything. Memory in MiB, `own` without the states that the
    RAM cache keeps, which come and go within its budget; `cells` of the KV cache."""

    at_s: float
    num_requests: int
    resident: float
    own: float
    cells: int
    host_entries: int
    threads: int
    files: int


@dataclass(slots=True)
class Run:
    """What a soak saw. `problems`: what must not be, in words."""

    plan: Plan
    samples: list[Sample] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    peaks: dict[str, int] = field(default_factory=dict)
    stats: dict[str, float | int] = field(default_factory=dict)
    num_purges: int = 0
    problems: list[str] = field(default_factory=list)

    def complain(self, text: str) -> None:
        """Note a problem, unless there are enough."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(text)


def run(plan: Plan, say: Callable[[str], None]) -> Run:
    """Soak an engine; raises TimeoutError when it gets stuck."""
    found = Run(plan)
    with counted(plan.spec.engine_class) as holdings, serving(plan.spec) as (queue, engine):
        holdings.watch(engine)
        soak = Soak(found, queue, engine, holdings)
        until_ts = time.monotonic() + plan.duration_s
        while time.monotonic() < until_ts:
            soak.wave(min(until_ts, time.monotonic() + plan.interval_s))
            soak.settle()
            say(describe(found.samples[-1]))
        soak.forget_all()
        found.stats = dict(engine.stats())
        found.peaks = holdings.peaks()
    held = holdings.held()
    if any(held.values()):
        found.complain(f"left when the engine was closed: {held}")
    return found


class Soak:
    """Traffic into one queue, and looks at the engine behind it."""

    def __init__(self, found: Run, queue: MemoryQueue, engine: Engine, holdings: Holdings) -> None:
        self._run = found
        self._queue = queue
        self._engine = engine
        self._holdings = holdings
        self._traffic = Traffic(found.plan.seed, found.plan.spec.context_len)
        self._random = self._traffic.random
        self._open: dict[str, bool] = {}  # by id: whether it was cancelled
        self._started_ts = time.monotonic()

    def wave(self, until_ts: float) -> None:
        """Requests, cancels and deletions until then, from crowds of changing size."""
        crowd, crowd_till_ts = 1, 0.0
        while (now := time.monotonic()) < until_ts:
            if now >= crowd_till_ts:
                crowd, crowd_till_ts = self._random.choice(CROWDS), now + CROWD_S
            while len(self._open) < crowd and self._random.random() < 0.7:
                request = self._traffic.request()
                self._queue.submit(request)
                self._open[request.generation_id] = False
            if self._open and self._random.random() < CANCEL_SHARE:
                self._cancel(self._random.choice(sorted(self._open)))
            if self._random.random() < PURGE_SHARE:
                self._queue.purge(MODEL, self._traffic.purge())
                self._run.num_purges += 1
            time.sleep(TICK_S)
            self._collect()

    def settle(self) -> None:
        """Wait until nothing runs, look, and take a sample."""
        patient_till_ts = time.monotonic() + PATIENCE_S

        def is_idle() -> bool:
            if time.monotonic() > patient_till_ts:
                for generation_id in self._open:
                    self._cancel(generation_id)
            self._collect()
            return not self._open and not self._engine.has_work

        wait_for("an idle engine", is_idle, IDLE_S)
        self._look()
        self._sample()

    def forget_all(self) -> None:
        """Clear the cache; no cell may be in use then."""
        self._queue.purge(MODEL, CachePurge())
        wait_for(
            "an empty cache",
            lambda: not self._engine.stats()["cache_slot_tokens"],
            IDLE_S,
        )
        self._look()
        if any(self._holdings.cells(self._engine._backend)):
            self._run.complain("cells are in use although everything was forgotten")
        if len(self._engine._cache.host):
            self._run.complain("states are kept although everything was forgotten")

    def _cancel(self, generation_id: str) -> None:
        if self._queue.cancel(MODEL, generation_id, "user"):
            self._open[generation_id] = True

    def _collect(self) -> None:
        """Take note of what has ended."""
        for generation_id, was_cancelled in list(self._open.items()):
            status = self._queue.status(MODEL, generation_id)
            if status is not None and status.state != "ended":
                continue
            del self._open[generation_id]
            read = self._queue.read(MODEL, generation_id, START, limit=100_000)
            end = fold(read.reset or EMPTY, read.entries).terminal
            self._run.ends[kind_of(end)] += 1
            if not is_expected(end, was_cancelled=was_cancelled):
                self._run.complain(f"{generation_id} ended with {end}")

    def _look(self) -> None:
        """Nobody asks for anything: what is held is what the cache says."""
        engine, held = self._engine, self._holdings.held()
        if any(held.values()):
            self._run.complain(f"held by nobody: {held}")
        if engine._active or engine.free_slots != engine._backend.num_seqs:
            self._run.complain("a slot is taken by nobody")
        cells = self._holdings.cells(engine._backend)
        said = [slot.length for slot in engine._table.slots]
        if cells != said:
            self._run.complain(f"cells in use {cells}, of which the cache knows {said}")

    def _sample(self) -> None:
        gc.collect()
        resident, own = memory_mib()
        self._run.samples.append(
            Sample(
                at_s=time.monotonic() - self._started_ts,
                num_requests=self._run.ends.total(),
                resident=resident,
                own=own - self._engine._cache.host.used_bytes / MIB,
                cells=sum(self._holdings.cells(self._engine._backend)),
                host_entries=len(self._engine._cache.host),
                threads=threading.active_count(),
                files=psutil.Process().num_fds(),
            )
        )


@contextmanager
def serving(spec: EngineSpec) -> Iterator[tuple[MemoryQueue, Engine]]:
    """A worker that is ready, in a thread; it is drained at the end."""
    queue = MemoryQueue(CONFIG)
    worker = Worker(spec, queue, CONFIG)
    thread = threading.Thread(target=worker.serve, daemon=True)
    thread.start()

    def is_ready() -> bool:
        if not thread.is_alive():
            raise RuntimeError("the worker has ended")
        return any(engine.state == "ready" for engine in queue.engines(MODEL))

    wait_for("a ready engine", is_ready, START_S)
    assert isinstance(worker._engine, JointEngine)
    engine = worker._engine._answers
    try:
        yield queue, engine
    finally:
        worker.drain()
        thread.join(IDLE_S)


def kind_of(end: Event | None) -> str:
    """The name of an end for counting."""
    if isinstance(end, Finished):
        return f"finished ({end.reason})"
    if isinstance(end, Failed):
        return end.code
    return "cancelled" if isinstance(end, Cancelled) else "lost"


def is_expected(end: Event | None, *, was_cancelled: bool) -> bool:
    """Whether a request of `Traffic` may end so."""
    if isinstance(end, Cancelled):
        return was_cancelled
    if isinstance(end, Failed):
        return end.code == "context_length_exceeded"
    return isinstance(end, Finished)


def describe(sample: Sample) -> str:
    """One line for people."""
    return (
        f"{sample.at_s:7.0f} s  {sample.num_requests:6} requests  resident {sample.resident:7.1f} "
        f"own {sample.own:7.1f} MiB  cells {sample.cells:5}  states {sample.host_entries:3}  "
        f"threads {sample.threads}  files {sample.files}"
    )
