"""Tools on the wire of a message: definitions, choices, and what isn't run here."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from inference.edge import replies
from inference.protocol.events import Failed
from inference.protocol.requests import AnswerParams, ChatPrompt
from tests.edge.anthropic.wire import Client
from tests.edge.events import answer
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEB = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
BASH = {"type": "bash_20250124", "name": "bash"}
FORM = {"type": "json_schema", "schema": {}}


def tool(name: Any = "f", schema: Any = None, **more: Any) -> dict[str, Any]:
    """A definition."""
    return {"name": name, "input_schema": {} if schema is None else schema, **more}


async def offered(fake: FakeInference, client: Client, **body: Any) -> tuple[Any, AnswerParams]:
    """The definitions that the template gets, and what the answer has to be."""
    status, told = await client.ask(**body)
    assert status == 200, told
    request = fake.submitted.pop()
    assert isinstance(request.prompt, ChatPrompt)
    tools_json = request.prompt.tools_json
    return None if tools_json is None else json.loads(tools_json), request.answer


async def test_definitions_are_functions(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    more = {"cache_control": {"type": "ephemeral"}, "strict": True, "defer_loading": True}
    tools = [tool("weather", SCHEMA, description="Now.", **more), tool("clock", type="custom")]
    definitions, wanted = await offered(fake, client, tools=tools)
    empty = {"type": "object", "properties": {}}
    assert definitions == [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Now.",
                "parameters": SCHEMA,
                "strict": True,
            },
        },
        {"type": "function", "function": {"name": "clock", "parameters": empty}},
    ]
    assert wanted == AnswerParams()
    for none in (None, []):
        assert (await offered(fake, client, tools=none))[0] is None


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        (None, AnswerParams()),
        ({"type": "auto"}, AnswerParams()),
        ({"type": "any"}, AnswerParams(tool_choice="required")),
        ({"type": "tool", "name": "f"}, AnswerParams(tool_choice="required", tool_name="f")),
        (
            {"type": "auto", "disable_parallel_tool_use": True},
            AnswerParams(parallel_tool_calls=False),
        ),
        (
            {"type": "any", "disable_parallel_tool_use": True},
            AnswerParams(tool_choice="required", parallel_tool_calls=False),
        ),
        ({"type": "any", "disable_parallel_tool_use": None}, AnswerParams(tool_choice="required")),
    ],
)
async def test_choices(says: Says, client: Client, choice: Any, wanted: AnswerParams) -> None:
    fake = says(*answer("x"))
    assert (await offered(fake, client, tools=[tool()], tool_choice=choice))[1] == wanted


async def test_none_shows_no_tools(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    definitions, wanted = await offered(fake, client, tools=[tool()], tool_choice={"type": "none"})
    assert (definitions, wanted) == (None, AnswerParams())


async def test_s09_what_is_run_elsewhere_is_left_out(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    definitions, _ = await offered(fake, client, tools=[WEB, tool(), BASH])
    assert [each["function"]["name"] for each in definitions] == ["f"]
    assert (await offered(fake, client, tools=[WEB]))[0] is None
    toolset = {"type": "mcp_toolset", "mcp_server_name": "x"}
    assert (await offered(fake, client, tools=[toolset]))[0] is None


async def test_the_schema_of_a_forced_call_is_named_as_the_request_has_it(
    says: Says, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    param = "tools[0].function.parameters.properties.a.uniqueItems"
    says(Failed("invalid_request", "is not supported", param=param))
    for tools, number in (([tool()], 0), ([WEB, tool()], 1)):
        fields = {"tools": tools, "tool_choice": {"type": "any"}}
        _, body = await client.ask(**fields)
        named = f"tools[{number}].input_schema.properties.a.uniqueItems: is not supported"
        assert body["error"]["message"] == named
        with monkeypatch.context() as patch:
            patch.setattr(replies, "FIRST_EVENT_WAIT_S", 0.0)  # nobody knows in time
            late = await client.stream(**fields)
        assert late.data[-1]["error"] == body["error"]


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"tools": 5}, "tools"),
        ({"tools": [tool()] * 1025}, "tools"),
        ({"tools": [tool(), tool()]}, "tools[1].name"),
        ({"tools": [5]}, "tools[0]"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [{**tool(), "type": 5}]}, "tools[0].type"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema"),
        ({"tools": [tool(schema=[])]}, "tools[0].input_schema"),
        ({"tools": [tool(schema={"properties": 5})]}, "tools[0].input_schema.properties"),
        ({"tools": [tool(None)]}, "tools[0].name"),
        ({"tools": [tool("a b")]}, "tools[0].name"),
        ({"tools": [tool(description=1)]}, "tools[0].description"),
        ({"tools": [tool(description="x" * 600_000)]}, "tools"),
        ({"tools": [tool()], "tool_choice": "any"}, "tool_choice"),
        ({"tools": [tool()], "tool_choice": {"type": "must"}}, "tool_choice.type"),
        ({"tools": [tool()], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tools": [tool()], "tool_choice": {"type": "tool", "name": "g"}}, "tool_choice.name"),
        # S09: forced, but not run here
        (
            {"tools": [WEB], "tool_choice": {"type": "tool", "name": "web_search"}},
            "tool_choice.name",
        ),
        ({"tools": [WEB], "tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        (
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}},
            "tool_choice.disable_parallel_tool_use",
        ),
        (
            {"tools": [tool()], "tool_choice": {"type": "any"}, "output_format": FORM},
            "tool_choice",
        ),
    ],
)
async def test_mistakes_are_named(says: Says, client: Client, given: Any, param: str) -> None:
    fake = says(*answer("x"))
    status, body = await client.ask(**given)
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert body["error"]["message"].startswith(f"{param}: ")
    assert not fake.submitted
