"""Which adapters a request uses, and from where on; what may be shared between them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.adapters import (
    Adapter,
    AdapterPlan,
    adapter_plan,
    chosen_scales,
    last_place,
)
from inference.engine.config import EngineConfig
from inference.engine.contract import Resume
from inference.engine.mock_tokenizer import encode_text
from inference.protocol.params import ContextParams, Limits
from llamaweb.lib.errors import InvalidError
from tests.engine.driving import (
    ADAPTERS,
    ask,
    finished,
    make_engine,
    run,
    run_one,
    started,
    text_of,
)

LORA, OTHER, ACTIVATED = 0, 1, 3
ONE = Limits(max_tokens=1)
CHAT = "a long system prompt " * 10
GO = CHAT + "GO now"
GO_AT = len(CHAT)


def test_the_defaults_are_those_with_a_scale() -> None:
    adapters = (Adapter("a", "1"), Adapter("b", "2", scale=0.0), Adapter("c", "3", scale=0.5))
    assert chosen_scales(adapters, None) == ((0, 1.0), (2, 0.5))
    assert chosen_scales((), None) == ()


def test_who_isnt_named_isnt_used_and_the_order_says_nothing() -> None:
    assert chosen_scales(ADAPTERS, ()) == ()
    assert chosen_scales(ADAPTERS, ((2, 1.0), (0, -0.5))) == ((0, -0.5), (2, 1.0))
    assert chosen_scales(ADAPTERS, ((1, 0.0), (0, 1.0))) == ((0, 1.0),)
    assert chosen_scales(ADAPTERS, ((1, 1.0), (1, 0.5))) == ((1, 0.5),)  # the last one counts
    assert chosen_scales(ADAPTERS, ((1, 0.1),)) == chosen_scales(ADAPTERS, ((1, 0.1 + 1e-12),))


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        (((0, 1.0), (4, 1.0)), "lora[1].id"),
        (((-1, 1.0),), "lora[0].id"),
        (((0, 100.5),), "lora[0].scale"),
        (((0, math.nan),), "lora[0].scale"),
        (((0, -math.inf),), "lora[0].scale"),
    ],
)
def test_what_cannot_be_is_named(wanted: tuple[tuple[int, float], ...], param: str) -> None:
    with pytest.raises(InvalidError) as caught:
        chosen_scales(ADAPTERS, wanted)
    assert caught.value.param == param


def test_only_one_activated_adapter_at_a_time() -> None:
    adapters = (*ADAPTERS, Adapter("another", "4", invocation=(1, 2)))
    with pytest.raises(InvalidError, match="one activated"):
        chosen_scales(adapters, ((3, 1.0), (4, 1.0)))
    assert chosen_scales(adapters, ((3, 1.0), (4, 0.0))) == ((3, 1.0),)


def test_a_plan_begins_where_the_invocation_stands_last() -> None:
    tokens = tuple(encode_text("GO and GO on"))
    scales = ((0, 0.5), (ACTIVATED, 1.0))
    assert adapter_plan(ADAPTERS, scales, tokens) == AdapterPlan(scales[:1], scales, 7)
    assert adapter_plan(ADAPTERS, scales, tokens[1:2]) == AdapterPlan(scales[:1], scales[:1])
    assert adapter_plan(ADAPTERS, scales[:1], tokens) == AdapterPlan(scales[:1], scales[:1])
    at_once = adapter_plan(ADAPTERS, scales[1:], tokens[:3])
    assert at_once == AdapterPlan((), scales[1:], 0)


@given(st.binary(max_size=30), st.binary(min_size=1, max_size=3))
def test_the_last_place_is_that_of_bytes(text: bytes, wanted: bytes) -> None:
    found = last_place(tuple(text), tuple(wanted))
    assert (-1 if found is None else found) == text.rfind(wanted)


def test_what_lies_before_an_activation_is_everybodys() -> None:
    engine = make_engine(num_slots=4)
    used, plain = ((ACTIVATED, 1.0),), ()

    def cached(name: str, adapters: tuple[tuple[int, float], ...], text: str = GO) -> int:
        return started(
            run_one(engine, ask(name, text, adapters=adapters, limits=ONE))
        ).cached_tokens

    assert cached("first", used) == 0
    assert cached("same", used) == len(GO) - 1
    assert cached("plain", plain) == GO_AT
    assert cached("weaker", ((ACTIVATED, 0.5),)) == GO_AT
    assert cached("on another", ((LORA, 1.0), (ACTIVATED, 1.0))) == 0
    assert cached("that other", ((LORA, 1.0),)) == GO_AT
    # Called again further on, it doesn't act yet where it did.
    assert cached("again", used, GO + " and GO again") == GO_AT
    assert cached("not called", used, GO.replace("GO", "no")) == GO_AT


def test_an_activated_prompt_is_followed_and_copied_like_any_other() -> None:
    engine = make_engine(num_slots=4, batch_len=64, ubatch_len=32)
    used = ((ACTIVATED, 1.0),)
    for who in "abcd":
        engine.add(ask(who, GO + who, adapters=used if who in "ac" else (), owner="user:1"))
    out = run(engine)
    for who in "abcd":
        assert text_of(out[who]).encode() == (GO + who).encode()
        assert finished(out[who])
    reused = sorted(started(out[who]).cached_tokens for who in "abcd")
    assert reused[0] == 0
    assert reused[1:] == [GO_AT, len(GO), len(GO)]


def test_evicted_states_keep_their_activation() -> None:
    config = EngineConfig(host_cache_bytes=1 << 20, copy_min_len=4)
    engine = make_engine(num_slots=2, config=config)
    used = ((ACTIVATED, 1.0),)
    run_one(engine, ask("a", GO, adapters=used, limits=ONE))
    while engine._cache.evict_one():
        pass
    assert started(run_one(engine, ask("b", GO, limits=ONE))).cached_tokens == GO_AT
    engine.purge(owner_key="nobody")
    again = run_one(engine, ask("c", GO, adapters=used, limits=ONE))
    assert started(again).cached_tokens == len(GO) - 1


def test_a_resumed_and_a_shifted_sequence_stay_activated() -> None:
    used = ((ACTIVATED, 1.0),)
    engine = make_engine()
    resume = Resume(tuple(encode_text(GO[:9])), 9)
    events = run_one(engine, ask("a", GO, adapters=used, resume=resume))
    assert text_of(events) == GO[9:]
    shifting = make_engine(
        "x" * 400, max_context=len(GO) + 20, config=EngineConfig(context_shift=True)
    )
    events = run_one(shifting, ask("b", GO, adapters=used, limits=Limits(max_tokens=300)))
    assert text_of(events) == "x" * 300


def test_pieces_are_not_moved_across_an_activation() -> None:
    engine = make_engine(num_slots=1)
    context = ContextParams(n_cache_reuse=4)
    used = ((ACTIVATED, 1.0),)
    run_one(engine, ask("a", "cut this. " + GO, adapters=used, limits=ONE, context=context))
    moved = run_one(engine, ask("b", GO, adapters=used, limits=ONE, context=context))
    assert started(moved).cached_tokens == 0
    plain = run_one(engine, ask("c", GO, limits=ONE, context=context))
    assert started(plain).cached_tokens == GO_AT
    engine.purge()
    run_one(engine, ask("d", "cut this. " + GO, limits=ONE, context=context))
    moved = run_one(engine, ask("e", GO, limits=ONE, context=context))
    assert started(moved).cached_tokens == len(GO) - 1


def test_a_check_of_the_cache_knows_both_parts() -> None:
    engine = make_engine(num_slots=3, config=EngineConfig(verify_cache=True))
    used = ((LORA, 1.0), (ACTIVATED, 1.0))
    run_one(engine, ask("a", GO, adapters=used, limits=ONE))
    engine.add(ask("b", GO + " again", adapters=used, limits=Limits(max_tokens=4)))
    engine.add(ask("c", CHAT, adapters=((OTHER, 1.0),), limits=Limits(max_tokens=4)))
    events = run(engine)
    assert text_of(events["b"]) == GO[:4]
    assert text_of(events["c"]) == CHAT[:4]
    stats = engine.stats()
    assert (stats["cache_checks"], stats["cache_check_failures"]) == (1, 0)
