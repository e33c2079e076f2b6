"""Interactive before background, with ageing; utility requests need no slot."""

from __future__ import annotations

from tests.contracts.bench import MODEL, Bench


def test_background_comes_last(bench: Bench) -> None:
    bench.submit("slow", lane="background")
    bench.submit("a1", "a2")
    assert bench.claimed_ids(2) == ["a1", "a2"]
    assert bench.claimed_ids(2) == ["slow"]


def test_background_owners_take_turns_too(bench: Bench) -> None:
    bench.submit("a1", "a2", lane="background")
    bench.submit("b1", lane="background", owner="bob")
    assert bench.claimed_ids(3) == ["a1", "b1", "a2"]


def test_an_old_background_request_is_taken_like_an_interactive_one(bench: Bench) -> None:
    bench.submit("slow", lane="background", owner="bob")
    bench.advance(bench.config.background_age_s - 5)
    bench.submit("a1", "a2", "a3")
    status = bench.queue.status(MODEL, "slow")
    assert status is not None
    assert status.position is not None
    assert status.position.ahead == 3
    bench.advance(6)
    assert bench.claimed_ids(4) == ["a1", "slow", "a2", "a3"]


def test_an_aged_one_comes_before_the_owners_later_ones(bench: Bench) -> None:
    bench.submit("slow", lane="background")
    bench.advance(bench.config.background_age_s + 1)
    bench.submit("a1")
    assert bench.claimed_ids(2) == ["slow", "a1"]


def test_utility_requests_need_no_slot(bench: Bench) -> None:
    bench.submit("a1")
    bench.queue.submit(bench.utility("u1"))
    bench.queue.submit(bench.utility("u2", "bob"))
    assert bench.claimed_ids(0, idle=False) == ["u1", "u2"]
    assert bench.claimed_ids(1) == ["a1"]


def test_utility_requests_dont_count_as_ahead(bench: Bench) -> None:
    bench.queue.submit(bench.utility("u1"))
    bench.submit("a1")
    status = bench.queue.status(MODEL, "a1")
    assert status is not None
    assert status.position is not None
    assert (status.position.ahead, status.position.waiting) == (0, 1)


def test_many_utility_requests_come_in_portions_and_all_come(bench: Bench) -> None:
    ids = [f"u{number}" for number in range(40)]
    for generation_id in ids:
        bench.queue.submit(bench.utility(generation_id))
    first = bench.claimed_ids(0)
    assert 0 < len(first) < 40
    assert first + bench.claimed_ids(0) == ids


def test_an_engine_takes_as_many_without_a_slot_as_it_wants(bench: Bench) -> None:
    for number in range(5):
        bench.queue.submit(bench.utility(f"u{number}"))
    bench.submit("g")
    none = bench.queue.claim(MODEL, "e1", slots=1, idle=True, utilities=0)
    assert [claim.request.generation_id for claim in none] == ["g"]
    two = bench.queue.claim(MODEL, "e1", slots=0, idle=False, utilities=2)
    assert [claim.request.generation_id for claim in two] == ["u0", "u1"]
    rest = bench.queue.claim(MODEL, "e1", slots=0, idle=False)
    assert [claim.request.generation_id for claim in rest] == ["u2", "u3", "u4"]
