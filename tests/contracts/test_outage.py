"""Nobody could reach the queue for longer than a lease: nobody is taken for dead because of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inference.queues.config import away_ms
from inference.queues.contract import Beat, BeatReply, QueueConfig, Reaped
from tests.contracts.bench import FINISHED, MODEL, STARTED, Bench

OUTAGE_S = 30.0
FIRST: dict[str, Callable[[Bench], object]] = {
    "reap": lambda bench: bench.queue.reap(MODEL),
    "claim": lambda bench: bench.claim(4, "e2"),
    "beat": lambda bench: bench.queue.beat(MODEL, Beat("e2", "ready")),
    "renew": lambda bench: bench.queue.reader_renew(MODEL, "web2", ("nobody",)),
    "submit": lambda bench: bench.submit("late"),
    "engine_gone": lambda bench: bench.queue.engine_gone(MODEL, "e2"),
}


def state(bench: Bench, generation_id: str = "g") -> tuple[str, int]:
    status = bench.queue.status(MODEL, generation_id)
    assert status is not None
    return status.state, status.deaths


@pytest.mark.parametrize("first", FIRST)
def test_an_engine_that_lives_goes_on(bench: Bench, first: str) -> None:
    claim = bench.start()
    bench.append(claim, 0, STARTED)
    bench.be_away(OUTAGE_S)
    FIRST[first](bench)
    assert bench.queue.reap(MODEL) == Reaped()
    bench.advance(bench.config.lease_s - 1)
    beat = Beat("e1", "ready", running=(("g", claim.epoch),))
    assert bench.queue.beat(MODEL, beat) == BeatReply()
    bench.advance(bench.config.lease_s - 1)
    assert bench.queue.reap(MODEL) == Reaped()
    assert state(bench) == ("running", 0)
    assert bench.append(claim, 1, FINISHED) == "ok"


@pytest.mark.parametrize("first", FIRST)
def test_readers_that_live_keep_theirs(bench: Bench, first: str) -> None:
    claim = bench.start(keep=False, reader_id="web1")
    beat = Beat("e1", "ready", running=(("g", claim.epoch),))
    bench.be_away(OUTAGE_S)
    FIRST[first](bench)
    assert bench.queue.beat(MODEL, beat) == BeatReply()
    assert bench.queue.reader_renew(MODEL, "web1", ["g"]) == ()
    bench.advance(bench.config.reader_renew_s)
    assert bench.queue.beat(MODEL, beat) == BeatReply()
    assert bench.queue.reap(MODEL) == Reaped()


@pytest.mark.parametrize("first", ["reap", "beat", "renew", "submit", "engine_gone"])
def test_what_waits_keeps_its_reader(bench: Bench, first: str) -> None:
    bench.submit("g", keep=False, reader_id="web1")
    bench.be_away(OUTAGE_S)
    FIRST[first](bench)
    assert bench.queue.reap(MODEL) == Reaped()
    bench.queue.reader_renew(MODEL, "web1", ["g"])
    assert bench.claimed_ids() == ["g"]


def test_a_claim_finds_what_waits(bench: Bench) -> None:
    bench.submit("g", keep=False, reader_id="web1")
    bench.be_away(OUTAGE_S)
    assert bench.claimed_ids() == ["g"]


def test_an_engine_that_died_meanwhile_keeps_the_reader(bench: Bench) -> None:
    bench.start(keep=False, reader_id="web1")
    bench.be_away(OUTAGE_S)
    assert bench.queue.engine_gone(MODEL, "e1") == ("g",)
    assert state(bench) == ("queued", 1)


def test_a_claim_handed_back_keeps_the_reader(bench: Bench) -> None:
    claim = bench.start(keep=False, reader_id="web1")
    bench.be_away(OUTAGE_S)
    assert bench.queue.release(MODEL, "e1", "g", claim.epoch)
    assert state(bench) == ("queued", 0)


def test_who_is_gone_is_found_one_lease_later(bench: Bench) -> None:
    bench.start("dead")
    bench.start("left", keep=False, reader_id="web1")
    bench.submit("waits", keep=False, reader_id="web1")
    bench.be_away(OUTAGE_S)
    assert bench.queue.reap(MODEL) == Reaped()
    bench.advance(bench.config.reader_lease_s + 0.1)
    reaped = bench.queue.reap(MODEL)
    assert reaped.requeued == ("dead",)
    assert set(reaped.cancelled) == {"left", "waits"}
    assert state(bench, "dead") == ("queued", 1)


@pytest.mark.parametrize("between_s", [3.0, 5.0, OUTAGE_S])
def test_a_lone_sweep_now_and_then_ends_them_too(bench: Bench, between_s: float) -> None:
    """Without engines and readers each sweep comes after a silence; only the first one waits."""
    bench.start("dead")
    bench.submit("waits", keep=False, reader_id="web1")
    ended: list[str] = []
    for _ in range(1 + int(2 * bench.config.reader_lease_s / between_s + 1)):
        bench.be_away(between_s)
        reaped = bench.queue.reap(MODEL)
        ended += [*reaped.requeued, *reaped.cancelled]
    assert sorted(ended) == ["dead", "waits"]


def test_two_outages_in_a_row(bench: Bench) -> None:
    claim = bench.start(keep=False, reader_id="web1")
    beat = Beat("e1", "ready", running=(("g", claim.epoch),))
    for _ in range(2):
        bench.be_away(OUTAGE_S)
        assert bench.queue.beat(MODEL, beat) == BeatReply()
        bench.queue.reader_renew(MODEL, "web1", ["g"])
    assert bench.queue.reap(MODEL) == Reaped()


def test_deadlines_dont_wait(bench: Bench) -> None:
    bench.submit("g", within_s=OUTAGE_S - 1)
    bench.be_away(OUTAGE_S)
    assert bench.queue.reap(MODEL).failed == ("g",)


def test_no_engine_is_taken_for_silent_between_two_heartbeats() -> None:
    config = QueueConfig()
    assert away_ms(config) > 2 * config.heartbeat_s * 1000
    assert away_ms(config) <= min(config.lease_s, config.reader_lease_s) * 1000
