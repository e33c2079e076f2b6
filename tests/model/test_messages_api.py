"""Messages of the Anthropic API on the starter model: from a request's body to the reply's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from inference.edge.anthropic.convert import message_request
from inference.edge.anthropic.render import MessageWire
from inference.edge.anthropic.schemas import MessagesIn
from inference.edge.asking import SubmitContext
from inference.edge.steps import Steps
from inference.engine.engine import Engine
from inference.engine.pipeline import Pipeline, build_pipeline
from inference.protocol.events import Entry
from tests.engine.driving import run_one

pytestmark = pytest.mark.model

CONTEXT = SubmitContext("user:1", "user:1", "starter", 4, 0.0, 600.0)
SAY = [{"role": "user", "content": "Write a short poem about the sea."}]
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def pipeline(loaded_engine: Engine) -> Iterator[Pipeline]:
    made = build_pipeline(loaded_engine._backend.tokenizer)
    yield made
    made.close()


def message(engine: Engine, pipeline: Pipeline, **fields: Any) -> dict[str, Any]:
    """What the model answers."""
    body = MessagesIn.model_validate(
        {"max_tokens": 40, "temperature": 0, "messages": SAY, **fields}
    )
    request = message_request(body, CONTEXT, "")
    prepared = pipeline.prepare(request)
    reader = pipeline.reader(request, prepared)
    wire, steps = MessageWire(request), Steps()
    events = run_one(engine, prepared)
    read = [e for event in events for e in (reader.read(event) if reader else [event])]
    entries = [Entry(seq, event) for seq, event in enumerate(read)]
    return wire.whole([f for e in entries for s in steps.feed(e) for f in wire.render(0, s)])


def test_text_and_the_prompt_cache(engine: Engine, pipeline: Pipeline) -> None:
    first = message(engine, pipeline, max_tokens=16)
    (block,) = first["content"]
    assert block["text"].strip()
    assert (first["stop_reason"], first["usage"]["output_tokens"]) == ("max_tokens", 16)
    second = message(engine, pipeline, max_tokens=16)
    assert second["content"] == first["content"]
    assert second["usage"]["input_tokens"] == 1
    cached = second["usage"]["cache_read_input_tokens"]
    assert cached + 1 == sum(
        first["usage"][name] for name in ("input_tokens", "cache_read_input_tokens")
    )


def test_a_begun_answer_goes_on(engine: Engine, pipeline: Pipeline) -> None:
    whole = message(engine, pipeline, max_tokens=24)["content"][0]["text"]
    begun = {"role": "assistant", "content": whole[:20]}
    rest = message(engine, pipeline, messages=[*SAY, begun], thinking={"type": "adaptive"})
    assert rest["content"][0]["text"]
    assert not rest["content"][0]["text"].startswith(whole[:20])


def test_a_call_that_has_to_be_made(engine: Engine, pipeline: Pipeline) -> None:
    tools = [{"name": "weather", "description": "The weather.", "input_schema": CITY}]
    choice = {"type": "any", "disable_parallel_tool_use": True}
    told = message(engine, pipeline, max_tokens=120, tools=tools, tool_choice=choice)
    (block,) = told["content"]
    assert (block["type"], block["name"], told["stop_reason"]) == (
        "tool_use",
        "weather",
        "tool_use",
    )
    assert block["input"]["city"] in ("Rome", "Oslo")


def test_an_answer_in_a_form(engine: Engine, pipeline: Pipeline) -> None:
    form = {"format": {"type": "json_schema", "schema": CITY}}
    (block,) = message(engine, pipeline, output_config=form)["content"]
    assert json.loads(block["text"])["city"] in ("Rome", "Oslo")
