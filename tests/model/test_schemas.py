"""The suite of schemas on the starter model: what it writes under a schema validates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.protocol.params import Grammar, Limits, SamplingParams
from tests.engine.driving import ask, finished, run, text_of
from tests.model.conftest import starter_spec
from tests.text.schema.judge import faults
from tests.text.schema.suite import ENFORCED, LONG

pytestmark = pytest.mark.model

NUM_GENERATIONS = 20  # of each schema
NUM_SLOTS = 10
MAX_TOKENS = 40
MAX_CUT = 0.05  # of all; what `max_tokens` cut is no JSON
TEXT = "A short example in JSON: "


@dataclass
class Suite:
    """The engine, and how many answers there were and were cut."""

    engine: Engine
    num_answers: int = 0
    num_cut: int = 0


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    engine, _ = build_engine(starter_spec(num_slots=NUM_SLOTS, context_len=NUM_SLOTS * 128))
    assert isinstance(engine, Engine)
    yield Suite(engine)
    engine.close()


def answers(engine: Engine, schema: object) -> list[tuple[str, str]]:
    """What it says under a schema with other random numbers each time, and why that ended."""
    tokenizer = engine._backend.tokenizer
    prompt = tuple(tokenizer.tokenize(TEXT, add_special=True, parse_special=False))
    grammar = Grammar(json.dumps(schema), kind="json_schema", param="json_schema")
    params = SamplingParams(temperature=1.0, grammar=grammar)
    out = []
    for first in range(0, NUM_GENERATIONS, NUM_SLOTS):
        for seed in range(first, first + NUM_SLOTS):
            request = ask(f"{seed}", sampling=params, limits=Limits(max_tokens=MAX_TOKENS))
            engine.add(replace(request, tokens=prompt, seed=seed))
        out += [(text_of(events), finished(events).reason) for events in run(engine).values()]
    return out


@pytest.mark.parametrize("name", [name for name in ENFORCED if name not in LONG])
def test_all_that_it_writes_validates(suite: Suite, name: str) -> None:
    said = answers(suite.engine, ENFORCED[name])
    assert len(said) == NUM_GENERATIONS
    for text, reason in said:
        if reason == "stop":
            assert faults(ENFORCED[name], json.loads(text)) == [], text
    suite.num_answers += len(said)
    suite.num_cut += sum(reason == "length" for _, reason in said)


def test_few_were_cut(suite: Suite) -> None:
    if not suite.num_answers:
        pytest.skip("there were none")
    assert suite.num_cut <= MAX_CUT * suite.num_answers
