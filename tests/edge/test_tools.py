"""Tools, reasoning and calls on the wire of a chat."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from inference.edge import replies
from inference.protocol.events import CallRef, Delta, Event, Failed
from inference.protocol.requests import AnswerParams, ChatPrompt
from tests.edge.events import STARTED, delta, finished
from tests.edge.wire import CHAT, TEXT, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tool(name: Any = "f", **function: Any) -> dict[str, Any]:
    """A definition."""
    return {"type": "function", "function": {"name": name, **function}}


def called(text: str, index: int = 0, call_id: str = "", name: str = "", end: Any = None) -> Delta:
    """A piece of a call."""
    return Delta(text, (1,), kind="tool_call", call=CallRef(index, call_id, name, end))


TWO_CALLS: tuple[Event, ...] = (
    STARTED,
    Delta("Both?", (1,), kind="reasoning"),
    delta("I look."),
    called("", 0, "call_a", "weather"),
    called('{"city":'),
    called(' "Zürich 😺"}'),
    called("", end="complete"),
    called("{}", 1, "call_b", "clock", "complete"),
    finished("tool_calls"),
)
WEATHER = {"name": "weather", "arguments": '{"city": "Zürich 😺"}'}
CLOCK = {"name": "clock", "arguments": "{}"}


async def test_calls_are_streamed_as_openai_has_them(says: Says, wire: Wire) -> None:
    says(*TWO_CALLS)
    streamed = await wire.stream(CHAT, tools=[tool("weather"), tool("clock")])
    choices = [chunk["choices"][0] for chunk in streamed.data]
    assert [choice["delta"] for choice in choices] == [
        {"role": "assistant", "content": None},
        {"reasoning_content": "Both?"},
        {"content": "I look."},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "call_a",
                    "type": "function",
                    "function": {"name": "weather", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ' "Zürich 😺"}'}}]},
        {"tool_calls": [{"index": 1, "id": "call_b", "type": "function", "function": CLOCK}]},
        {},
    ]
    assert [c["finish_reason"] for c in choices] == [None] * 7 + ["tool_calls"]


async def test_s03_whole_calls_have_text_as_arguments(says: Says, wire: Wire) -> None:
    says(*TWO_CALLS)
    _, body = await wire.post(CHAT, tools=[tool("weather"), tool("clock")])
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "Both?",
        "tool_calls": [
            {"type": "function", "function": WEATHER, "id": "call_a"},
            {"type": "function", "function": CLOCK, "id": "call_b"},
        ],
    }


async def test_content_is_empty_text_beside_calls(says: Says, wire: Wire) -> None:
    says(STARTED, called("{}", 0, "c", "f", "complete"), finished("tool_calls"))
    _, body = await wire.post(CHAT, tools=[tool()])
    assert body["choices"][0]["message"]["content"] == ""


async def sent(fake: FakeInference, wire: Wire, **fields: Any) -> tuple[Any, AnswerParams]:
    """The tools and the answer's params as they were submitted."""
    status, body = await wire.post(CHAT, **fields)
    assert status == 200, body
    request = fake.submitted.pop()
    assert isinstance(request.prompt, ChatPrompt)
    tools = request.prompt.tools_json
    return json.loads(tools) if tools else None, request.answer


async def test_tools_reach_the_template(says: Says, wire: Wire) -> None:
    fake = says(*TWO_CALLS)
    given = tool("weather", description="Of a city", parameters=SCHEMA, strict=True)
    tools, params = await sent(fake, wire, tools=[given])
    assert tools == [given]
    for lax in (False, None, "yes"):
        tools, _ = await sent(fake, wire, tools=[tool(parameters=SCHEMA, strict=lax, other=1)])
        assert tools == [tool(parameters=SCHEMA)]
    assert params == AnswerParams()
    # Templates read properties without a look.
    no_parameters = {"type": "object", "properties": {}}
    null = tool(parameters={"properties": None})
    for bare in (tool(), tool(parameters=None), null, {"function": {"name": "f"}}):
        tools, _ = await sent(fake, wire, tools=[bare])
        assert tools == [tool(parameters=no_parameters)]


async def test_what_the_answer_has_to_be(says: Says, wire: Wire) -> None:
    fake = says(*TWO_CALLS)
    two = [tool("f"), tool("g")]
    named = {"type": "function", "function": {"name": "g"}}
    for fields, params in (
        ({"tool_choice": "auto"}, AnswerParams()),
        ({"tool_choice": None, "parallel_tool_calls": None}, AnswerParams()),
        ({"tool_choice": "required"}, AnswerParams(tool_choice="required")),
        ({"tool_choice": named}, AnswerParams(tool_choice="required", tool_name="g")),
        ({"parallel_tool_calls": False}, AnswerParams(parallel_tool_calls=False)),
        ({"reasoning_format": "none"}, AnswerParams(splits_reasoning=False)),
        *(({"reasoning_format": n}, AnswerParams()) for n in ("auto", "deepseek")),
    ):
        tools, got = await sent(fake, wire, tools=two, **fields)
        assert (len(tools), got) == (2, params)
    # Who may call nothing is offered nothing.
    assert await sent(fake, wire, tools=two, tool_choice="none") == (None, AnswerParams())


def allowed(*names: Any, **more: Any) -> dict[str, Any]:
    """A choice among some tools."""
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"tools": tools, **more}}


async def test_only_allowed_tools_are_shown(says: Says, wire: Wire) -> None:
    fake = says(*TWO_CALLS)
    three = [tool("f"), tool("g"), tool("h")]
    for choice, names, params in (
        (allowed("h", "f", mode="auto"), ["f", "h"], AnswerParams()),
        (allowed("g"), ["g"], AnswerParams()),
        (allowed("g", mode="required"), ["g"], AnswerParams(tool_choice="required")),
    ):
        tools, got = await sent(fake, wire, tools=three, tool_choice=choice)
        assert [each["function"]["name"] for each in tools] == names
        assert got == params
    assert await sent(fake, wire, tools=three, tool_choice=allowed()) == (None, AnswerParams())


async def test_the_schema_of_an_allowed_tool_is_named_as_the_request_has_it(
    says: Says, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "tools[{}].function.parameters.properties.a.uniqueItems"
    says(Failed("invalid_request", "is not supported", param=path.format(0)))
    for choice, number in ((allowed("g"), 1), ("required", 0)):
        fields = {"tools": [tool("f"), tool("g")], "tool_choice": choice}
        status, body = await wire.post(CHAT, **fields)
        assert (status, body["error"]["param"]) == (400, path.format(number))
        with monkeypatch.context() as patch:
            patch.setattr(replies, "FIRST_EVENT_WAIT_S", 0.0)  # nobody knows in time
            late = await wire.stream(CHAT, n=2, **fields)
        assert late.data[-1]["error"] == body["error"]


ALLOWED = "tool_choice.allowed_tools"
PROPERTIES = "tools[0].function.parameters.properties"
NOT_A_TOOL = {"type": "function", "function": {"name": "g"}}


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"tools": 5}, "tools"),
        ({"tools": [tool()] * 1025}, "tools"),
        ({"tools": [tool(), tool()]}, "tools[1].function.name"),
        ({"tools": [5]}, "tools[0]"),
        ({"tools": [{**tool(), "type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [tool(None)]}, "tools[0].function.name"),
        ({"tools": [tool("")]}, "tools[0].function.name"),
        ({"tools": [tool("a b")]}, "tools[0].function.name"),
        ({"tools": [tool("x" * 129)]}, "tools[0].function.name"),
        ({"tools": [tool("a\0")]}, "tools[0].function.name"),
        ({"tools": [tool("a\x1b")]}, "tools[0].function.name"),
        ({"tools": [tool("a\x7f")]}, "tools[0].function.name"),
        ({"tools": [tool(description=1)]}, "tools[0].function.description"),
        ({"tools": [tool(description="x" * 600_000)]}, "tools"),
        ({"tools": [tool(parameters=[])]}, "tools[0].function.parameters"),
        ({"tools": [tool(parameters={"properties": 5})]}, PROPERTIES),
        ({"tools": [tool(parameters={"properties": []})]}, PROPERTIES),
        ({"tools": [tool()], "tool_choice": "always"}, "tool_choice"),
        ({"tools": [tool()], "tool_choice": 1}, "tool_choice"),
        ({"tools": [tool()], "tool_choice": {"function": {"name": "f"}}}, "tool_choice"),
        ({"tools": [tool()], "tool_choice": NOT_A_TOOL}, "tool_choice.function.name"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "allowed_tools"}}, ALLOWED),
        ({"tool_choice": allowed(mode="must")}, f"{ALLOWED}.mode"),
        ({"tool_choice": allowed(tools=None)}, f"{ALLOWED}.tools"),
        ({"tool_choice": allowed(tools=5)}, f"{ALLOWED}.tools"),
        ({"tool_choice": allowed(tools=[5])}, f"{ALLOWED}.tools[0]"),
        ({"tool_choice": allowed(tools=[{}])}, f"{ALLOWED}.tools[0].function"),
        (
            {"tools": [tool()], "tool_choice": allowed("f", "g")},
            f"{ALLOWED}.tools[1].function.name",
        ),
        ({"tool_choice": allowed(mode="required")}, "tool_choice"),
        ({"tools": [tool()], "grammar": 'root ::= "x"'}, "grammar"),
        ({"parallel_tool_calls": "yes"}, "parallel_tool_calls"),
    ],
)
async def test_mistakes_are_named(says: Says, wire: Wire, given: Any, param: str) -> None:
    fake = says(*TWO_CALLS)
    status, body = await wire.post(CHAT, **given)
    assert (status, body["error"]["param"]) == (400, param)
    assert body["error"]["type"] == "invalid_request_error"
    assert not fake.submitted


@pytest.mark.parametrize("given", [{"tools": [tool()]}, {"tool_choice": "required"}])
async def test_texts_have_no_tools(says: Says, wire: Wire, given: dict[str, Any]) -> None:
    says(*TWO_CALLS)
    status, body = await wire.post(TEXT, **given)
    assert (status, body["error"]["param"]) == (400, *given)
