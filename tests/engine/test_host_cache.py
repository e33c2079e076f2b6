"""The second tier: evicted sequences come back, within a budget, and only where they may."""

from __future__ import annotations

import numpy as np
import pytest

from inference.engine.config import EngineConfig
from inference.engine.engine import Engine
from inference.engine.host_cache import Belonging, HostCache, StoredState
from inference.engine.prefix import CacheKey
from inference.engine.reuse import Reuse, Way
from inference.protocol.events import Finished
from inference.protocol.params import ContextParams, Limits
from tests.engine.driving import ask, backend_of, make_engine, run, run_one, started, text_of

SHORT = Limits(max_tokens=2)
BIG = 1 << 20
TOKEN_BYTES = 8  # of an entry: a cell of the mock and the token's number
CONFIG = EngineConfig(host_cache_bytes=BIG, verify_cache=True)


def chat(who: str) -> str:
    return who * 300


def two_slots(**fields: object) -> Engine:
    return make_engine(num_slots=2, config=CONFIG, **fields)  # type: ignore[arg-type]


def crowd_out(engine: Engine, owner: str = "user:crowd", num: int = 4) -> None:
    for index in range(num):
        run_one(engine, ask(f"crowd{index}", f"{index}" * 400, owner=owner, limits=SHORT))


def test_an_evicted_chat_comes_back() -> None:
    engine = two_slots()
    cold = run_one(engine, ask("a", chat("a"), limits=SHORT))
    crowd_out(engine)
    warm = run_one(engine, ask("b", chat("a"), limits=SHORT))
    assert started(warm).cached_tokens == 299
    assert text_of(warm) == text_of(cold)
    stats = engine.stats()
    assert stats["cache_restores"] == 1
    assert stats["cache_host_hit_tokens"] == 299
    assert (stats["cache_checks"], stats["cache_check_failures"]) == (1, 0)


def test_without_a_budget_it_is_computed_again() -> None:
    engine = make_engine(num_slots=2)
    run_one(engine, ask("a", chat("a"), limits=SHORT))
    crowd_out(engine)
    assert started(run_one(engine, ask("b", chat("a"), limits=SHORT))).cached_tokens == 0


def test_a_stranger_finds_nothing_in_it_but_public_text() -> None:
    engine = two_slots()
    run_one(engine, ask("a", chat("a"), owner="user:alice", public=100, limits=SHORT))
    crowd_out(engine)
    bob = run_one(engine, ask("b", chat("a"), owner="user:bob", limits=SHORT))
    assert started(bob).cached_tokens == 0
    crowd_out(engine)
    carol = run_one(engine, ask("c", chat("a"), owner="user:carol", public=200, limits=SHORT))
    assert started(carol).cached_tokens == 100


def test_the_budget_holds_and_the_oldest_goes() -> None:
    budget = 3 * 4 * (2 * 410)  # about three chats: cells and tokens, four bytes each
    engine = make_engine(num_slots=1, config=EngineConfig(host_cache_bytes=budget))
    for index in range(10):
        run_one(engine, ask(str(index), f"{index}" * 400, limits=SHORT))
        assert engine.stats()["cache_host_bytes"] <= budget
    hits = [
        started(run_one(engine, ask(f"again{index}", f"{index}" * 400, limits=SHORT))).cached_tokens
        for index in (8, 0)
    ]
    assert hits == [399, 0]


def test_deleting_a_conversation_purges_both_tiers() -> None:
    engine = two_slots()
    mine = ContextParams(conversation="c1")
    other = ContextParams(conversation="c2")
    engine.add(ask("a", chat("a"), limits=SHORT, context=mine))
    engine.add(ask("b", chat("b"), limits=SHORT, context=other))
    run(engine)
    crowd_out(engine, num=2)
    run_one(engine, ask("c", chat("c"), limits=SHORT, context=mine))
    assert engine.purge(conversation="c1") == 2 * 301
    assert engine.purge(conversation="c1") == 0
    assert started(run_one(engine, ask("a2", chat("a"), limits=SHORT))).cached_tokens == 0
    assert started(run_one(engine, ask("c2", chat("c"), limits=SHORT))).cached_tokens == 0
    assert started(run_one(engine, ask("b2", chat("b"), limits=SHORT))).cached_tokens == 299


def test_what_runs_is_purged_when_it_ends_and_lends_nothing_meanwhile() -> None:
    engine = make_engine("x" * 50, num_slots=3)
    engine.add(ask("a", chat("a"), owner="user:1"))
    for _ in range(4):
        engine.step()
    engine.purge(owner_key="user:1")
    engine.add(ask("b", chat("a"), owner="user:1", limits=SHORT))
    out = run(engine)
    assert started(out["b"]).cached_tokens == 0
    assert isinstance(out["a"][-1], Finished)
    engine.purge()
    assert all(slot.length == 0 for slot in engine._table.slots)


def test_no_state_is_touched_under_a_pending_copy() -> None:
    """A burst that copies a prefix while an evicted chat comes back: the mock would complain."""
    engine = make_engine(num_slots=4, config=CONFIG)
    run_one(engine, ask("old", chat("o"), limits=SHORT))
    for index in range(4):
        engine.add(ask(f"fill{index}", f"{index}" * 400, owner=f"user:{index}", limits=SHORT))
    run(engine)
    engine.add(ask("lead", chat("p") + "1", owner="user:9", limits=SHORT))
    engine.step()
    for index in range(2):
        engine.add(ask(f"follow{index}", chat("p") + f"f{index}", owner="user:9", limits=SHORT))
    engine.add(ask("back", chat("o"), limits=SHORT))
    out = run(engine)
    assert started(out["back"]).cached_tokens == 299
    assert all(isinstance(events[-1], Finished) for events in out.values())
    assert engine.stats()["failed"] == 0


def test_a_restore_waits_while_its_slot_is_still_to_be_copied_from() -> None:
    engine = two_slots()
    run_one(engine, ask("old", chat("c"), limits=SHORT))
    while engine._cache.evict_one():
        pass
    run_one(engine, ask("long", "p" * 200 + "q" * 300, limits=SHORT))
    (source,) = (slot for slot in engine._table.slots if slot.length)
    engine.add(ask("b", "p" * 200 + "b" * 50, limits=SHORT))  # copies out of `source`
    engine.add(ask("c", chat("c"), limits=SHORT))  # is seated in it, and comes back from memory
    assert engine._active["c"].slot is source
    first = {item.generation_id for item in engine.step()}
    assert first == {"b"}
    out = run(engine)
    assert started(out["c"]).cached_tokens == 299
    assert engine.stats()["cache_copies"] == 1
    assert engine.stats()["cache_restores"] == 1
    assert text_of(out["c"]) == "cc"


def test_what_somebody_else_holds_and_what_is_short_is_not_stored() -> None:
    engine = make_engine(num_slots=3, config=CONFIG)
    run_one(engine, ask("short", "s" * 20, limits=SHORT))
    while engine._cache.evict_one():
        pass
    assert engine.stats()["cache_stores"] == 0
    for who in "ab":
        engine.add(ask(who, chat("a"), limits=Limits(max_tokens=1)))
    run(engine)
    assert sorted(slot.length for slot in engine._table.slots) == [0, 300, 300]
    while engine._cache.evict_one():
        pass
    assert engine.stats()["cache_stores"] == 1


def test_memory_that_cannot_be_had_costs_the_entry_only() -> None:
    engine = two_slots()
    run_one(engine, ask("a", chat("a"), limits=SHORT))
    backend_of(engine).save = lambda seq_id: None  # type: ignore[method-assign]
    crowd_out(engine)
    assert engine.stats()["cache_stores"] == 0
    events = run_one(engine, ask("b", chat("a"), limits=SHORT))
    assert started(events).cached_tokens == 0


def test_a_restore_that_fails_is_computed_again() -> None:
    engine = two_slots()
    run_one(engine, ask("a", chat("a"), limits=SHORT))
    crowd_out(engine)
    backend = backend_of(engine)
    backend.restore = lambda seq_id, state: False  # type: ignore[method-assign]
    events = run_one(engine, ask("b", chat("a"), limits=SHORT))
    assert started(events).cached_tokens == 0
    assert isinstance(events[-1], Finished)


@pytest.mark.parametrize("window_len", [1, 64, 250])
def test_behind_a_sliding_window_nothing_is_taken_that_is_gone(window_len: int) -> None:
    engine = two_slots(window_len=window_len)
    run_one(engine, ask("a", chat("a") + "b" * 100, limits=SHORT))
    short = run_one(engine, ask("b", chat("a"), limits=SHORT))
    assert started(short).cached_tokens == 0
    longer = run_one(engine, ask("c", chat("a") + "c" * 100, limits=SHORT))
    assert isinstance(longer[-1], Finished)
    engine.purge()
    first = run_one(engine, ask("d", chat("a"), limits=SHORT))
    continued = run_one(engine, ask("e", chat("a") + text_of(first)[:1] + "more", limits=SHORT))
    assert started(continued).cached_tokens == 301
    assert engine.stats()["failed"] == 0


def test_a_recurrent_state_goes_on_from_its_end_only() -> None:
    engine = two_slots(is_recurrent=True)
    more = "more" * 20  # worth a place of its own
    first = run_one(engine, ask("a", chat("a"), limits=SHORT))
    said = text_of(first)[:1]  # the second token isn't evaluated
    on = run_one(engine, ask("b", chat("a") + said + more, limits=SHORT))
    assert started(on).cached_tokens == 301
    assert started(run_one(engine, ask("c", chat("a"), limits=SHORT))).cached_tokens == 0
    longer = chat("a") + said + more + text_of(on)[:1]
    crowd_out(engine)
    resumed = run_one(engine, ask("d", longer + "x", limits=SHORT))
    assert started(resumed).cached_tokens == 301 + 80 + 1
    assert engine.stats()["failed"] == 0


def test_cache_prompt_off_reuses_nothing() -> None:
    engine = two_slots()
    run_one(engine, ask("a", chat("a"), limits=SHORT))
    off = ContextParams(cache_prompt=False)
    assert (
        started(run_one(engine, ask("b", chat("a"), limits=SHORT, context=off))).cached_tokens == 0
    )


def entry(length: int, num_bytes: int, cost_s: float) -> StoredState:
    return StoredState(
        tokens=np.zeros(length, np.int32),
        belonging=Belonging(CacheKey("m"), "s"),
        public_len=0,
        state=np.zeros(num_bytes - 4 * length, np.uint8),
        cost_s=cost_s,
    )


def test_what_is_dear_a_byte_outlives_what_is_cheap_but_not_for_ever() -> None:
    cache = HostCache(1000)
    dear, cheap = entry(10, 400, cost_s=0.8), entry(10, 400, cost_s=0.4)
    assert cache.put(dear) == []
    assert cache.put(cheap) == []
    assert cache.put(entry(10, 400, cost_s=0.4)) == [cheap]
    gone = []
    for _ in range(6):
        gone += cache.put(entry(10, 400, cost_s=0.4))
    assert dear in gone
    assert cache.used_bytes <= 1000
    assert cache.put(too_big := entry(10, 2000, cost_s=1.0)) == [too_big]


def test_the_cheapest_way_wins_by_what_was_measured() -> None:
    engine = make_engine(num_slots=4, config=CONFIG)
    run_one(engine, ask("a", chat("a"), limits=SHORT))
    engine.add(ask("busy", chat("a") + "x", limits=SHORT))  # takes the slot itself
    engine.add(ask("b", chat("a") + "y", limits=SHORT))
    sequence = engine._active["b"]
    pace, costs = engine._pace, engine._costs
    pace.observe(num_prompt=1000, num_decode=0, elapsed_s=1.0)  # 1 ms a token

    def best() -> Reuse:
        return engine._cache.plan(sequence)

    costs.observe_copies(1, 0.05)
    costs.observe_save(1000, 100, elapsed_s=1e-3)
    costs.observe_restore(1000, elapsed_s=1e-3)
    assert best().way is Way.STATE  # 3,000 bytes there and back: 6 ms
    for _ in range(30):
        costs.observe_restore(1000, elapsed_s=1.0)
    assert best().way is Way.COPY
    for _ in range(30):
        costs.observe_copies(1, 10.0)
    assert best() == Reuse(Way.IN_PLACE, sequence.slot, 0)
    run(engine)


def crowded(prefix_len: int, tail: str) -> Engine:
    """One slot, where an answer lies behind a prefix that a second question shares, and both costs
    were measured: 1 ms a token computed, 30 us a token saved."""
    engine = make_engine(num_slots=1, config=CONFIG)
    prefix = "p" * prefix_len
    run_one(engine, ask("a", prefix + tail, limits=SHORT))
    for _ in range(30):  # the clock stood still so far
        engine._pace.observe(num_prompt=1000, num_decode=0, elapsed_s=1.0)
    engine._costs.observe_save(1000 * TOKEN_BYTES, 1000, elapsed_s=30e-3)
    run_one(engine, ask("b", prefix + "?", limits=SHORT))
    return engine


def test_a_whole_start_is_saved_for_a_part_only_if_that_spares_more_than_it_costs() -> None:
    assert crowded(300, "t" * 300).stats()["cache_stores"] == 1  # 30 ms by chance, for 18 ms
    assert crowded(3000, "t" * 100).stats()["cache_stores"] == 0  # 10 ms by chance, for 93 ms
    assert crowded(0, "t" * 100).stats()["cache_stores"] == 1


def test_a_save_that_seemed_too_dear_is_tried_again_some_day() -> None:
    costs, num_tries = crowded(3000, "t" * 100)._costs, 0
    while not costs.is_worth_saving(3000 * TOKEN_BYTES, 100):
        costs.fade_save()
        num_tries += 1
    assert 100 < num_tries < 1000


def test_where_nothing_saved_is_asked_for_again_less_is_saved() -> None:
    costs = crowded(300, "t" * 300)._costs
    num_bytes = 600 * TOKEN_BYTES
    for _ in range(30):
        costs.observe_save(num_bytes, 600, elapsed_s=18e-3)
    assert costs.is_worth_saving(num_bytes, 220)  # 20 ms by chance
    for _ in range(20):
        costs.observe_stored()
    assert not costs.is_worth_saving(num_bytes, 220)
    assert costs.is_worth_saving(num_bytes, 600)  # what is much to compute is saved all the same
    for _ in range(4):
        costs.observe_return()
    assert costs.is_worth_saving(num_bytes, 220)
