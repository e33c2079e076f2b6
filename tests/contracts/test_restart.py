"""The server restarts, with and without what it had acknowledged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from inference.protocol.events import Cancelled, Entry
from inference.protocol.fold import EMPTY, fold
from inference.queues.connect import sync_client
from inference.queues.contract import START, Beat, Claim, Cursor
from llamaweb.lib.errors import UnavailableError
from tests.contracts.bench import FINISHED, MODEL, STARTED, Bench, delta, redis_bench
from tests.contracts.valkey import Valkey

WRITTEN = (Entry(0, STARTED), Entry(1, delta("a", 1)), Entry(2, delta("b", 2)))
LOG = fold(EMPTY, WRITTEN)


@contextlib.contextmanager
def bench_on(server: Valkey) -> Iterator[Bench]:
    with contextlib.closing(sync_client(server.url)) as client:
        yield redis_bench(client)


def begin(bench: Bench, **options: object) -> Claim:
    claim = bench.start(**options)
    assert bench.append(claim, 0, *(entry.event for entry in WRITTEN)) == "ok"
    return claim


def force_to_file(bench: Bench) -> None:
    assert bench.client is not None
    assert bench.client.execute_command("WAITAOF", 1, 0, 5000)[0] == 1


def test_a_living_engine_restores_what_was_lost(own_server: Valkey) -> None:
    with bench_on(own_server) as bench:
        claim = begin(bench, on_finish="store")
        own_server.restart()
        beat = Beat("e1", "ready", running=(("g", claim.epoch),))
        assert bench.queue.beat(MODEL, beat).lost == ()
        assert bench.append(claim, 3, delta("c", 3)) == "gap"
        assert bench.queue.restore("e1", claim, LOG)
        assert bench.append(claim, 3, delta("c", 3)) == "ok"
        # readers notice nothing, whoever was behind gets a snapshot
        read = bench.queue.read(MODEL, "g", Cursor(claim.incarnation, 2))
        assert (read.reset, read.entries) == (None, (Entry(3, delta("c", 3)),))
        assert bench.queue.read(MODEL, "g", START).reset == LOG
        assert bench.queue.beat(MODEL, beat).lost == ()
        assert bench.append(claim, 4, FINISHED) == "ok"
        assert [entry.on_finish for _, entry in bench.queue.finished()] == ["store"]
        assert bench.queue.models() == (MODEL,)


def test_usage_and_readers_are_restored_too(own_server: Valkey) -> None:
    with bench_on(own_server) as bench:
        claim = begin(bench, keep=False, reader_id="web")
        own_server.restart()
        assert bench.queue.restore("e1", claim, LOG)
        bench.advance(bench.config.lease_s + bench.config.reader_lease_s)
        assert bench.queue.reap(MODEL).cancelled == ("g",)
        last = bench.queue.read(MODEL, "g", START).entries[-1].event
        assert isinstance(last, Cancelled)
        assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (5, 2)


def test_after_a_restore_the_next_engine_can_go_on(own_server: Valkey) -> None:
    with bench_on(own_server) as bench:
        claim = begin(bench)
        own_server.restart()
        assert bench.queue.restore("e1", claim, LOG)
        bench.queue.engine_gone(MODEL, "e1")
        (again,) = bench.claim(1, "e2")
        assert again.resume == LOG
        assert again.incarnation == claim.incarnation


def test_both_lost_and_asked_again(own_server: Valkey) -> None:
    """Entries that readers have seen are gone with their engine; the sweep submits once more."""
    with bench_on(own_server) as bench:
        request = bench.request("g")
        bench.queue.submit(request)
        (claim,) = bench.claim()
        bench.append(claim, 0, *(entry.event for entry in WRITTEN))
        seen = bench.queue.read(MODEL, "g", START).cursor
        own_server.restart()
        assert bench.queue.read(MODEL, "g", seen).gone
        bench.queue.submit(request)
        (again,) = bench.claim(1, "e2")
        assert again.resume is None
        assert again.incarnation != claim.incarnation
        # as long a log as before: only the incarnation tells that it is another one
        bench.append(again, 0, STARTED, delta("x"), delta("y"), engine="e2")
        read = bench.queue.read(MODEL, "g", seen)
        assert read.reset == EMPTY
        assert [entry.event for entry in read.entries] == [STARTED, delta("x"), delta("y")]
        # the old engine comes back to life: too late
        assert not bench.queue.restore("e1", claim, LOG)
        assert bench.append(claim, 3, FINISHED) == "stale"


def test_nothing_lost_and_the_engine_lives(durable_server: Valkey) -> None:
    with bench_on(durable_server) as bench:
        claim = begin(bench)
        force_to_file(bench)
        durable_server.restart()
        assert bench.append(claim, 3, delta("c")) == "ok"
        read = bench.queue.read(MODEL, "g", START)
        assert read.reset is None
        assert len(read.entries) == 4


def test_the_server_and_the_engine_died(durable_server: Valkey) -> None:
    """Nobody knows what was lost: readers start again from a snapshot."""
    with bench_on(durable_server) as bench:
        claim = begin(bench)
        force_to_file(bench)
        durable_server.restart()
        bench.queue.engine_gone(MODEL, "e1")
        (again,) = bench.claim(1, "e2")
        assert again.incarnation == claim.incarnation + 1
        assert again.resume == LOG
        read = bench.queue.read(MODEL, "g", Cursor(claim.incarnation, 2))
        assert read.reset == LOG
        assert read.cursor == Cursor(again.incarnation, 2)
        assert bench.append(again, 3, FINISHED, engine="e2") == "ok"
        assert bench.queue.read(MODEL, "g", read.cursor).entries == (Entry(3, FINISHED),)


def test_a_death_on_the_same_server_keeps_the_incarnation(durable_server: Valkey) -> None:
    with bench_on(durable_server) as bench:
        claim = begin(bench)
        force_to_file(bench)
        durable_server.restart()
        assert bench.append(claim, 3, delta("c")) == "ok"  # to the new server
        bench.queue.engine_gone(MODEL, "e1")
        (again,) = bench.claim(1, "e2")
        assert again.incarnation == claim.incarnation


def test_a_claim_whose_answer_was_lost_is_given_again(server_bench: Bench) -> None:
    bench = server_bench
    bench.submit("a", "b")
    commands = bench.queue._commands  # type: ignore[attr-defined]
    bench.queue._nonces[MODEL, "e1"] = "n1"  # type: ignore[attr-defined]
    lost = bench.queue._run(commands.claim(MODEL, "e1", 1, True, "n1"))  # type: ignore[attr-defined]
    assert [claimed.generation_id for claimed in lost] == ["a"]
    (claim,) = bench.claim(1)
    assert (claim.request.generation_id, claim.epoch) == ("a", lost[0].epoch)
    assert bench.claimed_ids() == ["b"]


def test_an_unreachable_server_is_said_so(own_server: Valkey) -> None:
    with bench_on(own_server) as bench:
        bench.submit("a")
        own_server.kill()
        with pytest.raises(UnavailableError):
            bench.submit("b")
        with pytest.raises(UnavailableError):
            bench.claim()
        with pytest.raises(UnavailableError):
            bench.queue.wait_control(MODEL, "0-0", 0.1)
        own_server.start()
        bench.submit("b")
        assert bench.claimed_ids() == ["b"]
