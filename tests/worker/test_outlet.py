"""The outlet against a queue that fails in the middle: nothing lost, nothing twice."""

from __future__ import annotations

import random
from typing import Any

import pytest

from inference.protocol.events import Delta, Event, Failed, Finished, Started, Timings, Usage
from inference.protocol.fold import text_of
from inference.queues.contract import QueueConfig
from inference.queues.memory import MemoryQueue
from inference.worker import outlet as module
from inference.worker.outlet import Outlet, merge
from inference.worker.running import LeaseEvent, RunningSet
from llamaweb.lib.errors import UnavailableError
from tests.stack import wait_for
from tests.worker.conftest import MODEL, WAIT_S, Bench, generate

ENGINE = "e"


class Flaky:
    """Fails before or after the call took effect, and loses entries, as its dice say."""

    def __init__(self, queue: MemoryQueue, seed: int) -> None:
        self.queue, self.rng = queue, random.Random(seed)
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            dice = self.rng.random()
            if dice < 0.2:
                raise UnavailableError("before")
            result = getattr(self.queue, name)(*args, **kwargs)
            self.calls.append(name)
            if dice > 0.8:
                raise UnavailableError("after")
            return result

        return call


class Room:
    def __init__(self, queue: Any, memory: MemoryQueue, num: int) -> None:
        self.running = RunningSet()
        self.stale: list[tuple[str, int]] = []
        self.outlet = Outlet(
            model=MODEL,
            engine_id=ENGINE,
            queue_=queue,
            running=self.running,
            on_stale=lambda generation_id, epoch: self.stale.append((generation_id, epoch)),
            on_ended=lambda: None,
        )
        self.ids = []
        for _ in range(num):
            request = generate()
            memory.submit(request)
            self.ids.append(request.generation_id)
        self.claims = memory.claim(MODEL, ENGINE, slots=num, idle=True)
        for claim in self.claims:
            self.running.add(claim)
        self.outlet.start()

    def put(self, *events: Event) -> None:
        self.outlet.put(
            [
                LeaseEvent(claim.request.generation_id, claim.epoch, event)
                for claim in self.claims
                for event in events
            ]
        )


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.001)


@pytest.mark.parametrize("seed", range(8))
def test_failing_calls_lose_and_double_nothing(bench: Bench, seed: int) -> None:
    bench.queue = MemoryQueue(QueueConfig(stream_bytes=400))
    flaky = Flaky(bench.queue, seed)
    room = Room(flaky, bench.queue, 3)
    room.put(Started(1, 0))
    words = [f"word{i} " for i in range(30)]
    for i, word in enumerate(words):
        room.put(Delta(word, (i,)))
        if i % 5 == 4:
            wait_for("written", lambda n=i: all(num_tokens(bench, gid) > n for gid in room.ids), 10)
    room.put(Finished("stop", Usage(1, 30, 0)))
    logs = [bench.ended(gid) for gid in room.ids]
    assert [text_of(log) for log in logs] == ["".join(words)] * 3
    assert [log.token_ids for log in logs] == [tuple(range(30))] * 3
    assert "fold" in flaky.calls
    wait_for("no lease is held", lambda: len(room.running) == 0, WAIT_S)
    room.outlet.stop()


def num_tokens(bench: Bench, generation_id: str) -> int:
    return len(bench.log(generation_id).token_ids)


def test_events_of_an_older_lease_are_never_written(bench: Bench) -> None:
    room = Room(bench.queue, bench.queue, 1)
    (claim,) = room.claims
    gid = claim.request.generation_id
    room.outlet.put([LeaseEvent(gid, claim.epoch - 1, Delta("old", (1,)))])
    room.outlet.put([LeaseEvent(gid, claim.epoch, Delta("new", (2,)))])
    wait_for("a token", lambda: num_tokens(bench, gid), WAIT_S)
    assert text_of(bench.log(gid)) == "new"
    room.outlet.stop()


def test_a_lost_lease_is_said_and_writes_nothing(bench: Bench) -> None:
    room = Room(bench.queue, bench.queue, 1)
    (gid,) = room.ids
    bench.queue.engine_gone(MODEL, ENGINE)
    room.put(Delta("late", (1,)))
    wait_for("the loss is said", lambda: room.stale == [(gid, room.claims[0].epoch)], WAIT_S)
    assert num_tokens(bench, gid) == 0
    room.outlet.stop()


class Refusing:
    """Answers one append with an error that nobody foresaw."""

    def __init__(self, queue: MemoryQueue, at: int) -> None:
        self._queue, self._at, self._appends = queue, at, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def append(self, *args: Any) -> Any:
        self._appends += 1
        if self._appends == self._at:
            raise RuntimeError("MISCONF")
        return self._queue.append(*args)


@pytest.mark.parametrize("at", [1, 3, 12])
def test_an_unforeseen_error_costs_the_lease_not_the_text(bench: Bench, at: int) -> None:
    bench.start(queue=Refusing(bench.queue, at), delay_ms=5)
    gid = bench.submit(generate("0123456789"))
    assert text_of(bench.ended(gid)) == "0123456789"
    assert text_of(bench.ended(bench.submit(generate("and the next")))) == "and the next"


def test_an_end_that_met_no_engine_counts_what_was_published(bench: Bench) -> None:
    room = Room(bench.queue, bench.queue, 1)
    (gid,) = room.ids
    room.put(Started(7, 5), Delta("abc", (1, 2, 3)))
    wait_for("tokens", lambda: num_tokens(bench, gid) == 3, WAIT_S)
    bench.queue.engine_gone(MODEL, ENGINE)
    (claim,) = bench.queue.claim(MODEL, ENGINE, slots=1, idle=True)
    room.running.add(claim)
    room.outlet.put([LeaseEvent(gid, claim.epoch, Failed("invalid_request", "no"))])
    terminal = bench.ended(gid).terminal
    assert terminal is not None
    assert terminal.usage == Usage(prompt_tokens=7, completion_tokens=3, cached_tokens=5)
    room.outlet.stop()


def test_joined_deltas_tell_the_last_time() -> None:
    first, last = Timings(prefill_ms=5.0), Timings(prefill_ms=5.0, decode_ms=7.0)
    deltas = [Delta("a", (1,), timings=first), Delta("b", (2,), timings=last)]
    assert merge(deltas) == [Delta("ab", (1, 2), timings=last)]
    assert merge([*deltas, Delta("c", ())]) == [Delta("abc", (1, 2), timings=last)]
    assert merge([Delta("a", (1,)), Delta("b", (2,))]) == [Delta("ab", (1, 2))]
