"""A full context on a real model: shifted, moved in pieces, and a shared pool that runs out."""

from __future__ import annotations

import pytest

from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.protocol.events import Failed, Finished
from inference.protocol.params import ContextParams, Limits, SamplingParams
from tests.engine.driving import ask, finished, run, run_one, started
from tests.model.conftest import starter_spec

pytestmark = pytest.mark.model

FOREVER = SamplingParams(temperature=0.0, ignore_eos=True)
WORDS = "apple river stone cloud paper green seven night "


def tokens_of(engine: Engine, text: str) -> tuple[int, ...]:
    tokenizer = engine._backend.tokenizer
    return tuple(tokenizer.tokenize(text, add_special=True, parse_special=False))


def request(engine: Engine, who: str, text: str, **fields: object):  # type: ignore[no-untyped-def]
    import dataclasses

    made = ask(who, "-", sampling=FOREVER, owner=who, **fields)  # type: ignore[arg-type]
    return dataclasses.replace(made, tokens=tokens_of(engine, text))


def load(**fields: object) -> Engine:
    engine, _ = build_engine(starter_spec(**fields))
    assert isinstance(engine, Engine)
    return engine


def test_a_shifted_context_goes_on() -> None:
    engine = load(context_len=64, num_slots=2, context_shift=True)
    params = ContextParams(n_keep=-1)
    events = run_one(
        engine,
        request(engine, "a", WORDS, limits=Limits(max_tokens=120), context=params),
    )
    assert finished(events).truncated
    assert finished(events).usage.completion_tokens == 120
    assert engine.stats()["shifts"] >= 2
    assert engine.stats()["failed"] == 0
    engine.close()


def test_pieces_are_moved() -> None:
    engine = load(context_len=512, num_slots=2)
    limits = Limits(max_tokens=4)
    run_one(engine, request(engine, "a", "One. " + WORDS * 4 + "Two. " + WORDS * 12, limits=limits))
    moved = ContextParams(n_cache_reuse=16)
    asked = request(engine, "a", "One. " + "Two. " + WORDS * 12, limits=limits, context=moved)
    events = run_one(engine, asked)
    assert started(events).cached_tokens > len(asked.tokens) - 8
    assert finished(events).usage.completion_tokens == 4
    engine.close()


def test_a_pool_that_runs_out_ends_who_asked_last() -> None:
    engine = load(context_len=256, num_slots=3, kv_unified=True)
    for who in ("first", "second", "third"):
        engine.add(request(engine, who, WORDS, limits=Limits(max_tokens=100)))
    out = run(engine)
    ends = [type(out[who][-1]) for who in ("first", "second", "third")]
    assert ends[0] is Finished
    assert ends[2] is Failed
    again = run_one(engine, request(engine, "fourth", WORDS, limits=Limits(max_tokens=8)))
    assert finished(again).usage.completion_tokens == 8
    engine.close()
