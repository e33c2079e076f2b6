"""Owners take turns; nobody waits behind another's pile."""

from __future__ import annotations

from tests.contracts.bench import MODEL, Bench

SLOTS = 4


def test_bob_doesnt_wait_behind_alices_fifty(bench: Bench) -> None:
    bench.submit(*(f"a{n}" for n in range(50)))
    claims = bench.claimed_ids(SLOTS)
    bench.submit("bob", owner="bob")
    while "bob" not in claims:
        claims += bench.claimed_ids(1)
    assert len(claims) - SLOTS <= SLOTS + 1
    assert len(claims) - SLOTS <= 2  # in fact the next but one


def test_owners_take_turns(bench: Bench) -> None:
    bench.submit("a1", "a2", "a3")
    bench.submit("b1", "b2", owner="bob")
    bench.submit("c1", owner="carol")
    assert bench.claimed_ids(6) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_turns_last_between_claims(bench: Bench) -> None:
    bench.submit("a1", "a2", "a3")
    assert bench.claimed_ids() == ["a1"]
    bench.submit("b1", owner="bob")
    assert bench.claimed_ids() == ["a2"]
    assert bench.claimed_ids() == ["b1"]
    assert bench.claimed_ids() == ["a3"]


def test_one_owner_is_served_in_order(bench: Bench) -> None:
    bench.submit("z", "y", "x")
    assert bench.claimed_ids(3) == ["z", "y", "x"]


def test_a_cancelled_request_costs_no_turn(bench: Bench) -> None:
    bench.submit("a1", "a2", "a3")
    bench.submit("b1", "b2", owner="bob")
    bench.queue.cancel(MODEL, "a1", "user")
    bench.queue.cancel(MODEL, "a2", "user")
    assert bench.claimed_ids(3) == ["a3", "b1", "b2"]


def test_several_engines_share_one_queue(bench: Bench) -> None:
    bench.submit("a1", "a2", "a3")
    assert bench.claimed_ids(2, "e1") == ["a1", "a2"]
    assert bench.claimed_ids(2, "e2") == ["a3"]
    assert bench.claimed_ids(2, "e1", idle=False) == []


def test_no_slots_no_claims(bench: Bench) -> None:
    bench.submit("a1")
    assert bench.claimed_ids(0) == []
    load = bench.queue.load(MODEL)
    assert (load.waiting, load.running) == (1, 0)


def test_load_counts_owners_and_lanes(bench: Bench) -> None:
    bench.submit("a1", "a2")
    bench.submit("a3", lane="background")
    bench.submit("b1", owner="bob")
    bench.claim()
    load = bench.queue.load(MODEL)
    assert (load.waiting, load.waiting_background, load.running) == (3, 1, 1)
    assert load.waiting_by_owner == {"alice": 2, "bob": 1}


def test_load_tells_since_when_the_oldest_waits(bench: Bench) -> None:
    assert bench.queue.load(MODEL).oldest_wait_s == 0
    bench.submit("a1", lane="background")
    bench.advance(3)
    assert bench.queue.load(MODEL).oldest_wait_s == 0  # the background has time
    bench.submit("b1", owner="bob")
    bench.advance(2)
    bench.submit("b2", owner="bob")
    assert 2 <= bench.queue.load(MODEL).oldest_wait_s < 3
    bench.queue.cancel(MODEL, "b1", "user")
    assert bench.queue.load(MODEL).oldest_wait_s < 1
