"""Tools and a form in one chat, from the request to the engine (the mock) and back: the model
answers with one or the other, streamed as whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from inference.text.chat_template import CHATML_TEMPLATE
from tests.edge.wire import CHAT, Wire
from tests.fakes.inference_api import FakeInference
from tests.fakes.mock_model import HERMES, MockModel

LLAMA = CHATML_TEMPLATE + "{# <|python_tag|> <|start_header_id|> #}"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": CITY}}
FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "sunny": {"type": "boolean"}},
    "required": ["name", "sunny"],
    "additionalProperties": False,
}
BOTH = {
    "tools": [TOOL],
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": FORM}},
    "temperature": 0,
    "max_tokens": 400,
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
ANSWER = json.dumps({"name": "weather <tool_call>", "sunny": True})


@contextmanager
def saying(fake: FakeInference, reply: str, template: str = HERMES) -> Iterator[None]:
    """A server of a model that says `reply` where it may."""
    model = MockModel(reply, template=template)
    fake.script = model.script
    try:
        yield
    finally:
        model.close()


async def choice(wire: Wire, **body: Any) -> dict[str, Any]:
    """The one choice, which is the same streamed and whole."""
    status, told = await wire.post(CHAT, **{**BOTH, **body})
    assert status == 200, told
    (whole,) = told["choices"]
    streamed = await wire.stream(CHAT, **{**BOTH, **body})
    deltas = [c["delta"] for chunk in streamed.data for c in chunk["choices"]]
    calls = [call["function"] for delta in deltas for call in delta.get("tool_calls") or ()]
    made = whole["message"].get("tool_calls") or []
    assert streamed.text == (whole["message"]["content"] or "")
    assert "".join(c.get("arguments") or "" for c in calls) == "".join(
        call["function"]["arguments"] for call in made
    )
    assert [c["name"] for c in calls if c.get("name")] == [c["function"]["name"] for c in made]
    thought = "".join(delta.get("reasoning_content") or "" for delta in deltas)
    assert thought == (whole["message"].get("reasoning_content") or "")
    ends = [c["finish_reason"] for chunk in streamed.data for c in chunk["choices"]]
    assert [end for end in ends if end] == [whole["finish_reason"]]
    return dict(whole)


@pytest.mark.parametrize("thought", ["", "Hm, <tool_call>?"])
async def test_a_call(fake: FakeInference, wire: Wire, thought: str) -> None:
    front = f"<think>{thought}</think>\n\n" if thought else ""
    with saying(fake, front + CALL):
        told = await choice(wire)
    (call,) = told["message"]["tool_calls"]
    assert call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"]) == {"city": "Zürich"}
    assert told["finish_reason"] == "tool_calls"
    assert (told["message"].get("reasoning_content") or "") == thought


@pytest.mark.parametrize("thought", ["", "Hm, <tool_call>?"])
async def test_an_answer_in_the_form(fake: FakeInference, wire: Wire, thought: str) -> None:
    front = f"<think>{thought}</think>\n\n" if thought else ""
    with saying(fake, front + ANSWER):
        told = await choice(wire)
    assert told["message"]["content"] == ANSWER
    assert not told["message"].get("tool_calls")
    assert told["finish_reason"] == "stop"
    assert (told["message"].get("reasoning_content") or "") == thought


async def test_nothing_else(fake: FakeInference, wire: Wire) -> None:
    with saying(fake, "I would rather talk."):
        told = await choice(wire, reasoning_format="none")
    content, calls = told["message"]["content"], told["message"].get("tool_calls")
    assert calls or content.startswith("{")
    assert not (calls and content)


@pytest.mark.parametrize("given", [{"tool_choice": "none"}, {"tools": []}])
async def test_without_tools_it_is_the_form(
    fake: FakeInference, wire: Wire, given: dict[str, Any]
) -> None:
    with saying(fake, CALL):
        told = await choice(wire, reasoning_format="none", **given)
    assert told["message"]["content"].startswith("{")
    assert not told["message"].get("tool_calls")


@pytest.mark.parametrize("given", [{}, {"response_format": {"type": "json_object"}}])
async def test_a_model_whose_calls_are_json_takes_one_of_them(
    fake: FakeInference, wire: Wire, given: dict[str, Any]
) -> None:
    with saying(fake, ANSWER, template=LLAMA):
        status, told = await wire.post(CHAT, **{**BOTH, **given})
        assert (status, told["error"]["param"]) == (400, "tools")
        assert "form" in told["error"]["message"]
        told = await choice(wire, tool_choice="none")
    assert told["message"]["content"] == ANSWER


async def test_an_expression_leaves_no_room_for_calls(fake: FakeInference, wire: Wire) -> None:
    given = {"response_format": None, "structured_outputs": {"choice": ["yes"]}}
    with saying(fake, CALL):
        told = await choice(wire, reasoning_format="none", **given)
    assert told["message"]["content"] == "yes"
