"""An engine's death costs nothing but time; too many of them end the request."""

from __future__ import annotations

from inference.protocol.events import Entry, Failed, Usage
from inference.protocol.fold import EMPTY, fold
from inference.queues.contract import START
from tests.contracts.bench import FINISHED, MODEL, STARTED, Bench, delta


def test_the_next_engine_goes_on_from_the_log(bench: Bench) -> None:
    claim = bench.start()
    assert claim.resume is None
    bench.append(claim, 0, STARTED, delta("ab", 1, 2), delta("c", 3))
    assert bench.queue.engine_gone(MODEL, "e1") == ("g",)
    (again,) = bench.claim(1, "e2")
    entries = [Entry(0, STARTED), Entry(1, delta("ab", 1, 2)), Entry(2, delta("c", 3))]
    assert again.resume == fold(EMPTY, entries)
    assert again.resume.token_ids == (1, 2, 3)
    assert again.incarnation == claim.incarnation
    assert bench.append(again, 3, FINISHED, engine="e2") == "ok"


def test_a_lease_that_isnt_renewed_expires(bench: Bench) -> None:
    bench.start()
    bench.advance(bench.config.lease_s - 1)
    assert bench.queue.reap(MODEL).requeued == ()
    bench.advance(2)
    assert bench.queue.reap(MODEL).requeued == ("g",)
    status = bench.queue.status(MODEL, "g")
    assert status is not None
    assert (status.state, status.deaths) == ("queued", 1)


def test_it_keeps_its_place(bench: Bench) -> None:
    bench.submit("a1", "a2", "a3")
    bench.submit("b1", owner="bob")
    assert bench.claimed_ids(2) == ["a1", "b1"]
    bench.queue.engine_gone(MODEL, "e1")
    status = bench.queue.status(MODEL, "b1")
    assert status is not None
    assert status.position is not None
    assert status.position.ahead == 1
    assert bench.claimed_ids(4, "e2") == ["a1", "b1", "a2", "a3"]


def test_other_engines_keep_theirs(bench: Bench) -> None:
    bench.start("a", "e1")
    kept = bench.start("b", "e2")
    assert bench.queue.engine_gone(MODEL, "e1") == ("a",)
    assert bench.append(kept, 0, STARTED, engine="e2") == "ok"


def test_a_suspect_runs_alone_on_an_idle_engine(bench: Bench) -> None:
    bench.start("bad")
    for _ in range(bench.config.max_deaths):
        bench.queue.engine_gone(MODEL, "e1")
        if _ + 1 < bench.config.max_deaths:
            assert bench.claimed_ids() == ["bad"]
    bench.submit("good")
    (claim,) = bench.claim(4, idle=True)
    assert claim.request.generation_id == "bad"
    assert claim.alone
    # while it runs its engine takes nobody else in; another one does
    assert bench.claimed_ids(4, idle=False) == []
    assert bench.claimed_ids(4, "e2") == ["good"]


def test_a_suspect_comes_though_vectors_are_asked_for_all_the_time(bench: Bench) -> None:
    bench.start("bad")
    for count in range(bench.config.max_deaths):
        bench.queue.engine_gone(MODEL, "e1")
        if count + 1 < bench.config.max_deaths:
            assert bench.claimed_ids() == ["bad"]
    bench.queue.submit(bench.utility("u1"))
    assert bench.claimed_ids(0, idle=False) == ["u1"]  # there is no slot for it anyhow
    bench.queue.submit(bench.utility("u2"))
    assert bench.claimed_ids(4, idle=False) == []  # what is held runs dry
    assert bench.claimed_ids(4, idle=True) == ["bad"]
    assert bench.claimed_ids(4, idle=False) == ["u2"]


def test_requests_without_a_slot_go_on_while_a_suspect_waits_for_an_answer(bench: Bench) -> None:
    bench.submit("good", "bad")
    bench.claimed_ids(1, "e2")
    bench.claimed_ids(1, "e1")
    for count in range(bench.config.max_deaths):
        bench.queue.engine_gone(MODEL, "e1")
        if count + 1 < bench.config.max_deaths:
            assert bench.claimed_ids() == ["bad"]
    bench.queue.submit(bench.utility("u"))
    assert bench.claimed_ids(3, "e1", idle=False) == []
    assert bench.claimed_ids(3, "e2", idle=False) == ["u"]


def test_one_death_too_many_is_the_end(bench: Bench) -> None:
    claim = bench.start("bad", on_finish="store")
    bench.append(claim, 0, STARTED, delta("ab", 1, 2))
    for _ in range(bench.config.max_deaths):
        bench.queue.engine_gone(MODEL, "e1")
        assert bench.claimed_ids() == ["bad"]
    bench.advance(bench.config.lease_s + 1)
    reaped = bench.queue.reap(MODEL)
    assert (reaped.requeued, reaped.failed) == ((), ("bad",))
    last = bench.queue.read(MODEL, "bad", START).entries[-1]
    assert last.seq == 2
    assert isinstance(last.event, Failed)
    assert last.event.code == "engine_crashed"
    assert last.event.usage == Usage(5, 2, 2)
    assert [entry.generation_id for _, entry in bench.queue.finished()] == ["bad"]


def test_release_counts_no_death(bench: Bench) -> None:
    claim = bench.start("a1")
    bench.submit("a2")
    bench.append(claim, 0, STARTED, delta("x"))
    assert bench.queue.release(MODEL, "e1", "a1", claim.epoch)
    assert not bench.queue.release(MODEL, "e1", "a1", claim.epoch)
    status = bench.queue.status(MODEL, "a1")
    assert status is not None
    assert (status.state, status.deaths) == ("queued", 0)
    first, second = bench.claim(2, "e2")
    assert [first.request.generation_id, second.request.generation_id] == ["a1", "a2"]
    assert first.resume is not None
    assert first.resume.seq == 1


def test_a_known_stop_counts_no_death(bench: Bench) -> None:
    bench.start()
    assert bench.queue.engine_gone(MODEL, "e1", death=False) == ("g",)
    status = bench.queue.status(MODEL, "g")
    assert status is not None
    assert status.deaths == 0


def test_a_lost_utility_request_waits_in_its_lane_again(bench: Bench) -> None:
    bench.queue.submit(bench.utility("u"))
    assert bench.claimed_ids(0) == ["u"]
    bench.queue.engine_gone(MODEL, "e1")
    assert bench.claimed_ids(0, "e2", idle=False) == ["u"]
