"""The same operations in the same order look the same on both queues, whatever they are.

And whatever they are: a place in the queue is the number of claims before it, every accepted
request ends exactly once, and nothing is leased twice.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.protocol.events import Failed, is_terminal
from inference.queues.contract import START, Append, Beat, QueueConfig
from inference.queues.redis_queue import RedisQueue
from llamaweb.lib.errors import BusyError
from tests.contracts.bench import FINISHED, MODEL, STARTED, Bench, delta, memory_bench, redis_bench

CONFIG = QueueConfig(
    max_queued=8,
    max_queued_per_owner=5,
    background_age_s=60.0,
    stream_bytes=300,
    ended_keep_s=1e6,
    utility_keep_s=1e6,
    unfinalised_keep_s=1e6,
)
ENGINES = ("e1", "e2")
ids = st.integers(0, 8).map(lambda number: f"g{number}")
engines = st.sampled_from(ENGINES)
# Steps are far from every limit of CONFIG, since a server's clock runs by itself.
steps = st.one_of(
    st.tuples(
        st.just("submit"),
        ids,
        st.sampled_from(["alice", "bob", "carol"]),
        st.sampled_from(["interactive", "interactive", "background", "utility"]),
        st.sampled_from(["keep", "reader", "store", "late"]),
    ),
    st.tuples(st.just("claim"), engines, st.integers(0, 3), st.booleans()),
    st.tuples(st.just("claim"), engines, st.just(1), st.just(True)),
    st.tuples(
        st.just("write"),
        st.integers(0, 3),
        st.sampled_from([0, 0, 0, -1, 1]),
        st.sampled_from(["go on", "go on", "end"]),
    ),
    st.tuples(st.just("write"), st.integers(0, 3), st.sampled_from([0, -1]), st.just("go on")),
    st.tuples(st.just("cancel"), ids),
    st.tuples(st.just("release"), st.integers(0, 3)),
    st.tuples(st.just("beat"), engines),
    st.tuples(st.just("gone"), engines, st.booleans()),
    st.tuples(st.just("renew"), ids),
    st.tuples(st.just("ack"), ids),
    st.tuples(st.just("advance"), st.sampled_from([1.5, 3.0, 25.0])),
    st.tuples(st.just("be_away"), st.sampled_from([1.5, 3.0, 25.0])),
    st.tuples(st.just("reap")),
    st.tuples(st.just("fail")),
)


class Runner:
    """Carries out steps on one queue; what it returns must not depend on which."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.held: dict[str, tuple[str, int]] = {}  # generation -> engine, epoch
        self.accepted: set[str] = set()

    def run(self, step: tuple[Any, ...]) -> Any:
        return getattr(self, step[0])(*step[1:])

    def submit(self, generation_id: str, owner: str, lane: str, kind: str) -> Any:
        within_s = 20.0 if kind == "late" else 1e5
        if lane == "utility":
            request: Any = self.bench.utility(generation_id, owner)
            request = replace(request, deadline_at=self.bench.now() + within_s)
        else:
            request = self.bench.request(
                generation_id,
                owner,
                lane=lane,  # type: ignore[arg-type]
                keep=kind != "reader",
                on_finish="store" if kind == "store" else None,
                within_s=within_s,
            )
        try:
            position = self.bench.queue.submit(request, reader_id="web")
        except BusyError as error:
            return error.reason
        self.accepted.add(generation_id)
        return position

    def claim(self, engine: str, slots: int, idle: bool) -> Any:
        waiting = self.order() if slots == 1 else []
        claims = self.bench.queue.claim(MODEL, engine, slots=slots, idle=idle)
        for claim in claims:
            assert self.held.get(claim.request.generation_id) is None
            self.held[claim.request.generation_id] = (engine, claim.epoch)
        found = [(c.request.generation_id, c.resume, c.alone, c.incarnation) for c in claims]
        return waiting, found

    def order(self) -> list[tuple[int, str]]:
        found = []
        for generation_id in sorted(self.accepted):
            status = self.bench.queue.status(MODEL, generation_id)
            if status is not None and status.position is not None:
                found.append((status.position.ahead, generation_id))
        return sorted(found)

    def pick(self, number: int) -> str | None:
        """One that an engine holds, or thinks it holds."""
        held = sorted(self.held)
        return held[number % len(held)] if held else None

    def write(self, number: int, off: int, end: str) -> Any:
        generation_id = self.pick(number)
        if generation_id is None:
            return None
        engine, epoch = self.held[generation_id]
        status = self.bench.queue.status(MODEL, generation_id)
        assert status is not None
        first = max(0, status.last_seq + 1 + off)
        events = [delta("some text")] if first else [STARTED, delta("first")]
        if end == "end":
            events.append(FINISHED)
        item = Append(generation_id, epoch, status.incarnation, first, tuple(events))
        (outcome,) = self.bench.queue.append(MODEL, engine, [item])
        if end == "end" and outcome == "ok":
            del self.held[generation_id]
        return outcome

    def cancel(self, generation_id: str) -> bool:
        return self.bench.queue.cancel(MODEL, generation_id, "user")

    def release(self, number: int) -> Any:
        generation_id = self.pick(number)
        if generation_id is None:
            return None
        engine, epoch = self.held.pop(generation_id)
        return self.bench.queue.release(MODEL, engine, generation_id, epoch)

    def beat(self, engine: str) -> Any:
        running = tuple((g, epoch) for g, (e, epoch) in sorted(self.held.items()) if e == engine)
        reply = self.bench.queue.beat(MODEL, Beat(engine, "ready", running=running))
        for generation_id in reply.lost:
            del self.held[generation_id]
        return reply

    def gone(self, engine: str, death: bool) -> Any:
        lost = self.bench.queue.engine_gone(MODEL, engine, death=death)
        self.held = {g: held for g, held in self.held.items() if held[0] != engine}
        return sorted(lost)

    def renew(self, generation_id: str) -> Any:
        return self.bench.queue.reader_renew(MODEL, "web", [generation_id])

    def ack(self, generation_id: str) -> None:
        self.bench.queue.finished_ack(MODEL, generation_id)

    def advance(self, seconds: float) -> None:
        self.bench.advance(seconds)

    def be_away(self, seconds: float) -> None:
        self.bench.be_away(seconds)

    def reap(self) -> Any:
        reaped = self.bench.queue.reap(MODEL)
        for generation_id in (*reaped.requeued, *reaped.failed, *reaped.cancelled):
            self.held.pop(generation_id, None)
        return sorted(reaped.requeued), sorted(reaped.failed), sorted(reaped.cancelled)

    def fail(self) -> Any:
        return self.bench.queue.fail_queued(MODEL, Failed("model_unavailable", "no engine"))

    def seen(self) -> Any:
        """All that can be observed, without what only a clock decides."""
        out: list[Any] = [
            self.bench.queue.load(MODEL),
            sorted(entry.generation_id for _, entry in self.bench.queue.finished()),
        ]
        queue, all_ids = self.bench.queue, sorted(self.accepted)
        places: Any = ()
        if isinstance(queue, RedisQueue):  # of all at once, as the web asks
            places = queue._run(queue._commands.places(MODEL, all_ids))
        for generation_id, *place in zip_longest(all_ids, places):
            status = self.bench.queue.status(MODEL, generation_id)
            assert status is not None
            assert not places or place == [status.position]
            read = self.bench.queue.read(MODEL, generation_id, START)
            out.append((generation_id, replace(status, epoch=0), read))
            ends = [entry for entry in read.entries if is_terminal(entry.event)]
            assert len(ends) == (status.state == "ended")
        return out


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(plan=st.lists(steps, min_size=30, max_size=60))
def test_both_queues_agree(clients: dict[str, redis.Redis], plan: list[tuple[Any, ...]]) -> None:
    memory = Runner(memory_bench(CONFIG))
    server = Runner(redis_bench(clients["unix"], CONFIG))
    for step in plan:
        assert memory.run(step) == server.run(step)
        assert memory.seen() == server.seen()


submits = st.lists(
    st.tuples(
        st.sampled_from(["alice", "bob", "carol", "dave"]),
        st.sampled_from(["interactive", "background"]),
    ),
    min_size=1,
    max_size=20,
)


@pytest.mark.parametrize("where", ["memory", "unix"])
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(asked=submits, claimed_before=st.integers(0, 3), dead=st.booleans())
def test_a_position_is_the_number_of_claims_before(
    clients: dict[str, redis.Redis],
    where: str,
    asked: list[tuple[str, Any]],
    claimed_before: int,
    dead: bool,
) -> None:
    bench = memory_bench() if where == "memory" else redis_bench(clients["unix"])
    for number, (owner, lane) in enumerate(asked):
        bench.submit(f"g{number}", owner=owner, lane=lane)
    gone = bench.claimed_ids(claimed_before, "e1")
    if dead:
        bench.queue.engine_gone(MODEL, "e1")
        gone = []
    ahead: dict[int, str] = {}
    for number in range(len(asked)):
        status = bench.queue.status(MODEL, f"g{number}")
        assert status is not None
        if status.position is not None:
            assert status.position.waiting == len(asked) - len(gone)
            ahead[status.position.ahead] = f"g{number}"
    expected = [ahead[place] for place in range(len(asked) - len(gone))]
    claims: list[str] = []
    while more := bench.claimed_ids(1, "e2"):
        claims += more
    assert claims == expected
