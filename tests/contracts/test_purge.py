"""An order to forget reaches every engine, also one that was away."""

from __future__ import annotations

import contextlib

from inference.queues.connect import sync_client
from inference.queues.contract import Beat, BeatReply, CachePurge
from tests.contracts.bench import MODEL, Bench, reconfigured, redis_bench
from tests.contracts.test_control import woken
from tests.contracts.valkey import Valkey

ALL = CachePurge()
ONE, OTHER = CachePurge(conversations=("c1", "ü: 2")), CachePurge(owner_key="user:7")


class Engine:
    """An engine that hears of purges with its heartbeats."""

    def __init__(self, bench: Bench, engine_id: str = "e1") -> None:
        self.bench = bench
        self.engine_id = engine_id
        self.mark = ""

    def beat(self) -> tuple[CachePurge, ...]:
        reply: BeatReply = self.bench.queue.beat(
            MODEL, Beat(self.engine_id, "ready", mark=self.mark)
        )
        self.mark = reply.mark
        return reply.purges


def test_every_engine_hears_of_it_once_and_in_order(bench: Bench) -> None:
    engines = [Engine(bench, f"e{number}") for number in range(3)]
    assert [engine.beat() for engine in engines] == [(), (), ()]
    bench.queue.purge(MODEL, ONE)
    assert engines[0].beat() == (ONE,)
    bench.queue.purge(MODEL, OTHER)
    bench.queue.purge(MODEL, ALL)
    assert engines[0].beat() == (OTHER, ALL)
    assert [engine.beat() for engine in engines[1:]] == [(ONE, OTHER, ALL)] * 2
    assert [engine.beat() for engine in engines] == [(), (), ()]


def test_a_new_engine_hears_only_of_later_ones(bench: Bench) -> None:
    bench.queue.purge(MODEL, ONE)
    engine = Engine(bench)
    assert engine.beat() == ()
    bench.queue.purge(MODEL, OTHER)
    assert engine.beat() == (OTHER,)


def test_a_lost_answer_is_given_again(bench: Bench) -> None:
    engine = Engine(bench)
    engine.beat()
    bench.queue.purge(MODEL, ONE)
    mark = engine.mark
    assert engine.beat() == (ONE,)
    engine.mark = mark  # the answer didn't arrive
    assert engine.beat() == (ONE,)


def test_models_are_apart(bench: Bench) -> None:
    engine = Engine(bench)
    engine.beat()
    bench.queue.purge("another", ONE)
    assert engine.beat() == ()


def test_it_wakes_engines_and_is_no_request(bench: Bench) -> None:
    assert woken(bench, lambda: bench.queue.purge(MODEL, ONE))
    assert bench.queue.load(MODEL).waiting == 0
    assert bench.claim(5) == ()


def test_an_engine_that_missed_more_than_is_kept_forgets_everything(bench: Bench) -> None:
    small = reconfigured(bench, max_purges=3)
    engine, late = Engine(small), Engine(small, "e2")
    engine.beat(), late.beat()
    for _ in range(3):
        small.queue.purge(MODEL, ONE)
    assert engine.beat() == (ONE,) * 3
    small.queue.purge(MODEL, OTHER)
    assert engine.beat() == (OTHER,)
    assert late.beat() == (ALL,)
    assert late.beat() == ()
    small.queue.purge(MODEL, OTHER)
    assert late.beat() == (OTHER,)


def test_orders_are_kept_for_a_time_only(bench: Bench) -> None:
    short = reconfigured(bench, purge_keep_s=0.2)
    engine = Engine(short)
    engine.beat()
    short.queue.purge(MODEL, ONE)
    if short.client is None:
        short.be_away(0.3)
    else:  # the server's own clock lets them expire
        _until_gone(short)
    assert engine.beat() == (ALL,)
    assert engine.beat() == ()


def test_a_restarted_server_may_have_lost_an_order(own_server: Valkey) -> None:
    with contextlib.closing(sync_client(own_server.url)) as client:
        bench = redis_bench(client)
        engine = Engine(bench)
        engine.beat()
        bench.queue.purge(MODEL, ONE)
        own_server.restart()
        bench.queue.purge(MODEL, OTHER)  # numbered like the one that is lost
        assert engine.beat() == (ALL,)
        bench.queue.purge(MODEL, ONE)
        assert engine.beat() == (ONE,)


def _until_gone(bench: Bench) -> None:
    client = bench.client
    assert client is not None
    key = f"{bench.prefix}{{{MODEL}}}:purges"
    for _ in range(10_000):
        if not client.exists(key):
            return
    raise AssertionError("orders outlive their time")
