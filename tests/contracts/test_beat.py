"""A heartbeat renews leases and is shown."""

from __future__ import annotations

from inference.queues.contract import Beat, BeatReply
from tests.contracts.bench import MODEL, STARTED, Bench


def test_it_renews_what_it_names(bench: Bench) -> None:
    bench.submit("a", "b")
    one, _ = bench.claim(2)
    for _ in range(4):
        bench.advance(bench.config.lease_s / 2)
        assert bench.queue.beat(MODEL, Beat("e1", "ready", running=(("a", one.epoch),))) == (
            BeatReply()
        )
    assert bench.queue.reap(MODEL).requeued == ("b",)
    assert bench.append(one, 0, STARTED) == "ok"


def test_it_says_what_is_lost(bench: Bench) -> None:
    claim = bench.start()
    bench.queue.engine_gone(MODEL, "e1")
    beat = Beat("e1", "ready", running=(("g", claim.epoch), ("unknown", claim.epoch)))
    assert bench.queue.beat(MODEL, beat).lost == ("g", "unknown")
    (again,) = bench.claim(1, "e2")
    assert bench.queue.beat(MODEL, beat).lost == ("g", "unknown")
    beat = Beat("e2", "ready", running=(("g", again.epoch),))
    assert bench.queue.beat(MODEL, beat) == BeatReply()


def test_engines_are_listed_for_a_minute(bench: Bench) -> None:
    beat = Beat("e2", "loading", steps=7, waiting_for_step=True, info={"slots": 4, "model": "x"})
    bench.queue.beat(MODEL, beat)
    bench.advance(10)
    bench.queue.beat(MODEL, Beat("e1", "ready"))
    one, other = bench.queue.engines(MODEL)
    assert (one.engine_id, one.state, one.running) == ("e1", "ready", 0)
    assert (other.engine_id, other.state, other.steps) == ("e2", "loading", 7)
    assert other.waiting_for_step
    assert dict(other.info) == {"slots": 4, "model": "x"}
    assert 9 < other.age_s < 20
    bench.advance(55)
    assert [engine.engine_id for engine in bench.queue.engines(MODEL)] == ["e1"]


def test_a_dead_engine_isnt_listed(bench: Bench) -> None:
    bench.queue.beat(MODEL, Beat("e1", "ready"))
    bench.queue.engine_gone(MODEL, "e1")
    assert bench.queue.engines(MODEL) == ()
