"""A small model calls a tool when it has to, and its arguments are what the schema says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from inference.engine.engine import Engine
from inference.engine.pipeline import Pipeline, build_pipeline
from inference.protocol.events import Finished, Snapshot
from inference.protocol.fold import Log
from inference.protocol.params import Grammar, Limits, SamplingParams
from inference.protocol.requests import AnswerParams, ChatPrompt, GenerateRequest, Message
from tests.engine.driving import run_one

pytestmark = pytest.mark.model

BOOK: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 30},
        "nights": {"type": "integer", "minimum": 1, "maximum": 30},
        "guests": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {"type": "string", "maxLength": 20},
        },
    },
    "required": ["city", "nights", "guests"],
}
TOOLS = json.dumps(
    [
        {"type": "function", "function": {"name": "clock", "description": "What time it is"}},
        {"type": "function", "function": {"name": "book", "parameters": BOOK}},
    ]
)
SEEDS = range(5)


@pytest.fixture(scope="module")
def pipeline(loaded_engine: Engine) -> Iterator[Pipeline]:
    made = build_pipeline(loaded_engine._backend.tokenizer)
    yield made
    made.close()


def answer(
    engine: Engine,
    pipeline: Pipeline,
    text: str,
    seed: int,
    grammar: Grammar | None = None,
    **params: Any,
) -> Snapshot:
    """The log of the answer to `text`."""
    request = GenerateRequest(
        f"gen-{seed}",
        "starter",
        owner_key="user:1",
        cache_scope="user:1",
        prompt=ChatPrompt((Message("user", text),), tools_json=TOOLS),
        seed=seed,
        submitted_at=0.0,
        deadline_at=1e12,
        sampling=SamplingParams(temperature=1.0, grammar=grammar),
        limits=Limits(max_tokens=200),
        answer=AnswerParams(**params),
    )
    prepared = pipeline.prepare(request)
    reader = pipeline.reader(request, prepared)
    assert reader is not None
    log = Log()
    for event in run_one(engine, prepared):
        for shown in reader.read(event):
            log.add(shown)
    return log.snapshot()


@pytest.mark.parametrize("seed", SEEDS)
def test_s01_required_is_a_call_whatever_is_said(
    engine: Engine, pipeline: Pipeline, seed: int
) -> None:
    log = answer(engine, pipeline, "Hello, how are you today?", seed, tool_choice="required")
    assert {kind for kind, _ in log.parts} == {"tool_call"}, log.parts
    for call, (_, arguments) in zip(log.calls, log.parts, strict=True):
        if call.end == "complete":  # the last one may be cut at the limit
            schema = BOOK if call.name == "book" else {"type": "object", "maxProperties": 0}
            jsonschema.validate(json.loads(arguments), schema)
    assert log.calls[0].end == "complete"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_named_tool_is_called_once(engine: Engine, pipeline: Pipeline, seed: int) -> None:
    log = answer(
        *(engine, pipeline, "What is the time?", seed),
        tool_choice="required",
        tool_name="book",
        parallel_tool_calls=False,
    )
    assert [(call.name, call.end) for call in log.calls] == [("book", "complete")]
    jsonschema.validate(json.loads(log.parts[0][1]), BOOK)
    assert isinstance(log.terminal, Finished)
    assert log.terminal.reason == "tool_calls"


@pytest.mark.parametrize("seed", SEEDS)
def test_beside_a_form_it_is_calls_or_the_form(
    engine: Engine, pipeline: Pipeline, seed: int
) -> None:
    form = {
        "type": "object",
        "properties": {"mood": {"type": "string", "enum": ["good", "bad"]}},
        "required": ["mood"],
        "additionalProperties": False,
    }
    grammar = Grammar(json.dumps(form), kind="json_schema", param="json_schema")
    log = answer(engine, pipeline, "How are you? Or book Rome.", seed, grammar)
    kinds = {kind for kind, _ in log.parts} - {"reasoning"}
    assert kinds in ({"content"}, {"tool_call"}), log.parts
    if kinds == {"content"}:
        jsonschema.validate(json.loads("".join(text for _, text in log.parts)), form)
    else:
        assert log.calls[0].name in ("clock", "book")
