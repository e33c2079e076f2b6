"""Cancel works at every stage, and exactly one terminal event tells of it."""

from __future__ import annotations

import pytest

from inference.protocol.events import Cancelled, Entry, Failed, Usage
from inference.queues.contract import START, Beat
from tests.contracts.bench import FINISHED, MODEL, STARTED, Bench, delta


def test_queued_ends_now(bench: Bench) -> None:
    bench.submit("a", "b", on_finish="store")
    assert bench.queue.cancel(MODEL, "a", "user")
    assert bench.queue.read(MODEL, "a", START).entries == (Entry(0, Cancelled("user")),)
    assert bench.claimed_ids(4) == ["b"]
    assert [entry.generation_id for _, entry in bench.queue.finished()] == ["a"]


@pytest.mark.parametrize("lane", ["interactive", "background"])
def test_it_leaves_no_trace_in_the_counts(bench: Bench, lane: str) -> None:
    bench.submit("a", lane=lane)
    bench.queue.cancel(MODEL, "a", "user")
    load = bench.queue.load(MODEL)
    assert (load.waiting, load.waiting_background, load.waiting_by_owner) == (0, 0, {})


def test_running_is_told_to_the_engine(bench: Bench) -> None:
    claim = bench.start()
    assert bench.queue.cancel(MODEL, "g", "owner")
    assert bench.queue.cancel(MODEL, "g", "user")  # the first one counts
    status = bench.queue.status(MODEL, "g")
    assert status is not None
    assert (status.state, status.cancel_requested) == ("running", "owner")
    reply = bench.queue.beat(MODEL, Beat("e1", "ready", running=(("g", claim.epoch),)))
    assert reply.cancelled == (("g", "owner"),)
    assert bench.append(claim, 0, STARTED, Cancelled("owner")) == "ok"
    assert not bench.queue.cancel(MODEL, "g", "user")


def test_cancelled_and_then_its_engine_died(bench: Bench) -> None:
    claim = bench.start()
    bench.append(claim, 0, STARTED, delta("ab", 1, 2))
    bench.queue.cancel(MODEL, "g", "user")
    bench.advance(bench.config.lease_s + 1)
    reaped = bench.queue.reap(MODEL)
    assert (reaped.requeued, reaped.cancelled) == ((), ("g",))
    last = bench.queue.read(MODEL, "g", START).entries[-1]
    assert last == Entry(2, Cancelled("user", Usage(5, 2, 2)))


def test_requeued_and_then_cancelled_keeps_its_usage(bench: Bench) -> None:
    claim = bench.start()
    bench.append(claim, 0, STARTED, delta("a", 1), delta("b", 2))
    bench.append(claim, 1, delta("a", 1))  # a retry counts nothing twice
    bench.queue.engine_gone(MODEL, "e1")
    assert bench.queue.cancel(MODEL, "g", "user")
    last = bench.queue.read(MODEL, "g", START).entries[-1]
    assert last.event == Cancelled("user", Usage(5, 2, 2))
    assert bench.claimed_ids(1) == []


def test_release_of_a_cancelled_one_ends_it(bench: Bench) -> None:
    claim = bench.start()
    bench.queue.cancel(MODEL, "g", "user")
    assert bench.queue.release(MODEL, "e1", "g", claim.epoch)
    assert bench.queue.read(MODEL, "g", START).entries == (Entry(0, Cancelled("user")),)


def test_unknown_and_ended(bench: Bench) -> None:
    assert not bench.queue.cancel(MODEL, "g", "user")
    claim = bench.start()
    bench.append(claim, 0, FINISHED)
    assert not bench.queue.cancel(MODEL, "g", "user")
    assert len(bench.queue.read(MODEL, "g", START).entries) == 1


def test_everything_that_waits_can_be_failed(bench: Bench) -> None:
    claim = bench.start("running")
    bench.append(claim, 0, STARTED)
    bench.submit("a")
    bench.submit("b", owner="bob", lane="background", on_finish="store")
    bench.queue.submit(bench.utility("u"))
    terminal = Failed("model_unavailable", "the model can't be loaded")
    assert bench.queue.fail_queued(MODEL, terminal) == ("a", "b", "u")
    for generation_id in ("a", "b", "u"):
        read = bench.queue.read(MODEL, generation_id, START)
        assert read.entries == (Entry(0, terminal),)
    assert bench.queue.load(MODEL).waiting == 0
    assert bench.append(claim, 1, FINISHED) == "ok"
