"""A full context: shifted where that is wanted, and a shared pool that runs out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.config import EngineConfig
from inference.engine.contract import Resume
from inference.engine.engine import Engine
from inference.engine.shifting import find_cuts, shift_range
from inference.protocol.events import Failed, Finished
from inference.protocol.params import ContextParams, Limits, SamplingParams
from llamaweb.lib.errors import TooLongError
from tests.engine.driving import (
    ask,
    failed,
    finished,
    ids_of,
    make_engine,
    run,
    run_one,
    started,
    text_of,
)

FOREVER = SamplingParams(temperature=0.0, ignore_eos=True)
SHIFT = EngineConfig(context_shift=True, host_cache_bytes=1 << 20)
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
SHORT = Limits(max_tokens=2)


@pytest.mark.parametrize(
    ("params", "has_bos", "expected"),
    [
        (ContextParams(), False, (0, 31)),
        (ContextParams(), True, (1, 32)),
        (ContextParams(n_keep=-1), False, (8, 35)),
        (ContextParams(n_keep=-1), True, (8, 35)),
        (ContextParams(n_keep=20, n_discard=5), False, (20, 25)),
        (ContextParams(n_keep=1000), False, (60, 61)),
        (ContextParams(n_keep=10, n_discard=1000), False, (10, 62)),
    ],
)
def test_the_range_that_goes(
    params: ContextParams, has_bos: bool, expected: tuple[int, int]
) -> None:
    found = shift_range(63, prompt_len=8, has_bos=has_bos, params=params, max_context=64)
    assert found == expected


@pytest.mark.parametrize("n_keep", [0, 5, -1])
def test_a_shifted_context_goes_on_and_says_that_it_lost_something(n_keep: int) -> None:
    engine = make_engine(ALPHABET, max_context=64, config=SHIFT)
    request = ask(
        "a",
        "8 tokens",
        sampling=FOREVER,
        limits=Limits(max_tokens=300),
        context=ContextParams(n_keep=n_keep),
    )
    events = run_one(engine, request)
    assert text_of(events) == (ALPHABET * 12)[:300]
    assert (finished(events).reason, finished(events).truncated) == ("length", True)
    assert engine.stats()["shifts"] >= 8


def test_nobody_goes_on_from_what_was_moved() -> None:
    engine = make_engine(ALPHABET, num_slots=1, max_context=64, config=SHIFT)
    limits = Limits(max_tokens=100)
    keep = ContextParams(n_keep=-1)
    run_one(engine, ask("a", "8 tokens", sampling=FOREVER, limits=limits, context=keep))
    (slot,) = (slot for slot in engine._table.slots if slot.length)
    again = bytes(int(token) for token in slot.cached)
    assert started(run_one(engine, ask("b", again[:60]))).cached_tokens == 8


def test_an_answer_without_end_ends() -> None:
    engine = make_engine(ALPHABET, max_context=64, config=SHIFT)
    events = run_one(engine, ask("a", "8 tokens", sampling=FOREVER))
    assert finished(events).reason == "length"
    assert finished(events).usage.completion_tokens == 16 * 64


def test_without_the_option_a_full_context_ends_the_answer() -> None:
    events = run_one(make_engine(max_context=64), ask("a", "8 tokens", sampling=FOREVER))
    assert (finished(events).reason, finished(events).truncated) == ("length", True)
    assert finished(events).usage.completion_tokens == 56
    ended = run_one(make_engine(max_context=64), ask("a", "8 tokens", limits=SHORT))
    assert not finished(ended).truncated


def test_an_answer_longer_than_the_context_ends_at_an_engines_death() -> None:
    engine = make_engine(ALPHABET, max_context=64, config=SHIFT)
    published = tuple((ALPHABET * 4)[:100].encode())
    events = run_one(engine, ask("a", "8 tokens", sampling=FOREVER, resume=Resume(published, 0)))
    assert (finished(events).reason, ids_of(events)) == ("length", ())


def test_a_prompt_is_too_long_with_shift_too() -> None:
    from llamaweb.lib.errors import TooLongError

    with pytest.raises(TooLongError) as caught:
        make_engine(max_context=64, config=SHIFT).add(ask("a", "x" * 70))
    assert (caught.value.prompt_tokens, caught.value.max_context) == (70, 64)


tokens = st.lists(st.integers(0, 3), max_size=40).map(lambda ids: np.array(ids, np.int32))


@given(tokens, tokens, st.integers(1, 5))
def test_cuts_make_a_prefix(
    cached: np.ndarray,
    target: np.ndarray,
    least: int,  # type: ignore[type-arg]
) -> None:
    start = 0
    while start < min(len(cached), len(target) - 1) and cached[start] == target[start]:
        start += 1
    cuts, length = find_cuts(cached, target, start, least)
    for first, end in cuts:
        assert 0 <= first < end
        cached = np.concatenate((cached[:first], cached[end:]))
    assert start <= length <= max(start, len(target) - 1)
    assert (cached[:length] == target[:length]).all()


def test_a_chat_whose_oldest_message_went_is_moved_not_computed() -> None:
    engine = make_engine(num_slots=2)
    system, first, second = "s" * 100, "first " * 20, "second " * 40
    run_one(engine, ask("a", system + first + second, limits=SHORT))
    reuse = ContextParams(n_cache_reuse=32)
    events = run_one(engine, ask("b", system + second + "new", context=reuse))
    assert started(events).cached_tokens == len(system + second)
    assert text_of(events) == system + second + "new"
    plain = run_one(engine, ask("c", system + second[7:] + "new", limits=SHORT))
    assert started(plain).cached_tokens <= len(system)


def test_pieces_are_moved_within_a_scope_only() -> None:
    engine = make_engine(num_slots=2)
    run_one(engine, ask("a", "sys" * 30 + "gone" * 10 + "kept" * 50, owner="user:1", limits=SHORT))
    reuse = ContextParams(n_cache_reuse=8)
    bob = ask("b", "sys" * 30 + "kept" * 50, owner="user:2", context=reuse, limits=SHORT)
    assert started(run_one(engine, bob)).cached_tokens == 0


def shared_pool(num_slots: int = 3, cells: int = 200, **fields: object) -> Engine:
    return make_engine(
        "x" * 500,
        num_slots=num_slots,
        max_context=cells,
        is_unified=True,
        **fields,  # type: ignore[arg-type]
    )


def test_cached_cells_are_freed_first() -> None:
    engine = shared_pool(config=EngineConfig(host_cache_bytes=1 << 20))
    run_one(engine, ask("a", "a" * 150, limits=SHORT))
    events = run_one(engine, ask("b", "b" * 150, owner="user:2", limits=SHORT))
    assert isinstance(events[-1], Finished)
    assert engine.stats()["cache_evicted"] == 1
    again = run_one(engine, ask("c", "a" * 150, limits=SHORT))
    assert started(again).cached_tokens == 149  # it went to the second tier
    assert engine.stats()["failed"] == 0


def test_then_the_batch_shrinks_and_prompts_wait() -> None:
    engine = shared_pool(batch_len=16, ubatch_len=16)
    engine.add(ask("a", "a" * 100, owner="user:1", limits=Limits(max_tokens=10)))
    for _ in range(9):
        engine.step()
    engine.add(ask("b", "b" * 95, owner="user:2", limits=SHORT))
    out = run(engine)
    assert engine.stats()["shrunk_steps"] > 0
    assert finished(out["b"]).usage.completion_tokens == 2
    assert isinstance(out["a"][-1], Finished)


def test_a_prompt_begins_when_it_fits_and_nobody_overtakes_it() -> None:
    engine = shared_pool(cells=200)
    engine.add(ask("long", "a" * 100, owner="user:1", limits=Limits(max_tokens=40)))
    engine.step()
    engine.add(ask("big", "b" * 120, owner="user:2", limits=SHORT))
    engine.add(ask("small", "c", owner="user:3", limits=SHORT))
    out = run(engine)
    assert all(isinstance(events[-1], Finished) for events in out.values())


def test_then_whoever_asked_last_ends_and_the_others_go_on() -> None:
    engine = shared_pool()
    for who in ("first", "second", "third"):
        request = ask(who, who * 5, owner=who, limits=Limits(max_tokens=100))
        engine.add(request)
    out = run(engine)
    assert isinstance(out["first"][-1], Finished)
    assert (failed(out["third"]).code, failed(out["third"]).retryable) == ("busy", True)
    assert "200 tokens" in failed(out["third"]).message
    assert failed(out["third"]).usage.completion_tokens > 0
    assert sum(isinstance(events[-1], Failed) for events in out.values()) < 3


def test_a_shared_prefix_costs_nothing_in_a_pool() -> None:
    engine = shared_pool(cells=1000)
    for index in range(3):
        engine.add(ask(str(index), "p" * 200 + f"{index}", owner="user:1", limits=SHORT))
    out = run(engine)
    assert sorted(started(events).cached_tokens for events in out.values()) == [0, 200, 200]
    assert engine.stats()["cache_copies"] == 2


def test_a_pool_may_hold_more_than_one_context() -> None:
    engine = shared_pool(cells=200, pool_len=600)
    for who in ("first", "second", "third"):
        engine.add(ask(who, who[0] * 150, owner=who, limits=Limits(max_tokens=45)))
    out = run(engine)
    assert all(finished(events).usage.completion_tokens == 45 for events in out.values())
    assert engine.stats()["cache_evicted"] == 0
    with pytest.raises(TooLongError):
        engine.add(ask("fourth", "x" * 200))
