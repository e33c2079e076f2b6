"""Types of the KV cache on the starter model: what works, what is refused, and what it changes."""

from __future__ import annotations

import dataclasses

import pytest

from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.protocol.params import Limits
from llamaweb.lib.errors import InvalidError
from tests.engine.driving import ask, run_one, text_of
from tests.model.conftest import CHAT, starter_spec

pytestmark = pytest.mark.model
QUESTION = CHAT.format("What is the capital of France?")


def build(**fields: object) -> Engine:
    engine, _ = build_engine(starter_spec(context_len=256, num_slots=2, **fields))
    assert isinstance(engine, Engine)
    return engine


def answer_of(engine: Engine) -> str:
    tokens = engine._backend.tokenizer.tokenize(QUESTION, add_special=True, parse_special=True)
    request = dataclasses.replace(ask("a", "-", limits=Limits(max_tokens=12)), tokens=tuple(tokens))
    return text_of(run_one(engine, request))


@pytest.mark.parametrize("flash_attention", ["on", "auto"])
def test_quantised_keys_and_values_answer(flash_attention: str) -> None:
    engine = build(cache_type_k="q8_0", cache_type_v="q8_0", flash_attention=flash_attention)
    try:
        assert "Paris" in answer_of(engine)
    finally:
        engine.close()


def test_a_smaller_type_holds_as_much_in_less() -> None:
    plain, small = build(), build(cache_type_k="q8_0", cache_type_v="q8_0")
    try:
        sizes = []
        for engine in (plain, small):
            answer_of(engine)
            sizes.append(engine._backend.state_bytes(0))  # a new engine's first sequence
        assert sizes[1] < 0.6 * sizes[0]
        assert plain._backend.fingerprint != small._backend.fingerprint
    finally:
        plain.close()
        small.close()


def test_states_of_different_types_are_told_apart() -> None:
    seen = set()
    for kind in ("f16", "bf16", "q8_0"):
        engine = build(cache_type_k=kind)
        seen.add(engine._backend.fingerprint)
        engine.close()
    assert len(seen) == 3


def test_quantised_keys_need_no_flash_attention() -> None:
    engine = build(cache_type_k="q8_0", flash_attention="off")
    try:
        assert "Paris" in answer_of(engine)
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"cache_type_v": "q8_0", "flash_attention": "off"}, "cache_type_v", "needs flash"),
        ({"cache_type_v": "q3_0"}, "cache_type_v", "one of f16"),
        ({"cache_type_k": "Q8_0"}, "cache_type_k", "one of f16"),
    ],
)
def test_what_can_not_be_is_named(fields: dict[str, object], param: str, words: str) -> None:
    with pytest.raises(InvalidError, match=words) as caught:
        build(**fields)
    assert caught.value.param == param
