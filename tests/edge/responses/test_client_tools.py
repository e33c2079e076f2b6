"""Tools that clients run and that are no plain functions: in namespaces, or with free text; and
what the history of such clients holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseCustomToolCallItem, ResponseFunctionToolCall

from inference.edge.responses.calls import ToolRef, text_given
from inference.edge.tools import MAX_TOOLS
from inference.protocol.events import CallRef, Delta, Event
from inference.protocol.requests import ChatPrompt, GenerateRequest, Message, ToolCall
from tests.edge.events import STARTED, answer, finished
from tests.edge.responses.events import post, stream
from tests.edge.wire import Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
OFF: dict[str, Any] = {"store": False}
ISSUE = {"type": "function", "name": "create_issue", "description": "Opens one."}
NOTE = {"type": "custom", "name": "note"}
TRACKER = {
    "type": "namespace",
    "name": "mcp__tracker",
    "description": "Issues.",
    "tools": [ISSUE, NOTE, {"type": "web_search"}],
}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: hunk+"},
}
TOOLS = [TRACKER, PATCH]
TEXT = '*** Begin\n+"\u00e9"\n'


def calling(name: str, *texts: str, end: str | None = "complete") -> tuple[Event, ...]:
    """An answer that is one call."""
    begin = Delta("", (1,), kind="tool_call", call=CallRef(0, "call_1", name))
    deltas = [Delta(text, (2,), kind="tool_call", call=CallRef(0)) for text in texts]
    if end is None:
        return (STARTED, begin, *deltas, finished("length"))
    ends = Delta("", (), kind="tool_call", call=CallRef(0, end="complete"))
    return (STARTED, begin, *deltas, ends, finished("tool_calls"))


def offered(request: GenerateRequest) -> dict[str, Any]:
    """The functions that the model sees, by their names."""
    assert isinstance(request.prompt, ChatPrompt)
    tools = [tool["function"] for tool in json.loads(request.prompt.tools_json or "[]")]
    return {tool["name"]: tool for tool in tools}


async def test_a_client_s_tools_are_offered_as_functions(says: Says, wire: Wire) -> None:
    fake = says(*answer("ok"))
    _, response = await post(wire, tools=TOOLS, **OFF)
    tools = offered(fake.submitted[-1])
    assert list(tools) == ["mcp__tracker__create_issue", "mcp__tracker__note", "apply_patch"]
    assert tools["mcp__tracker__create_issue"]["description"] == "Opens one."
    patch = tools["apply_patch"]["parameters"]
    assert patch["required"] == ["input"]
    assert "start: hunk+" in patch["properties"]["input"]["description"]
    assert response["warnings"] == [
        "tools[0].tools[2]: web_search isn't run by this server and was left out"
    ]
    group, custom = response["tools"]
    assert (group["type"], group["name"]) == ("namespace", "mcp__tracker")
    assert [(tool["type"], tool["name"]) for tool in group["tools"]] == [
        ("function", "create_issue"),
        ("custom", "note"),
    ]
    assert custom == PATCH


async def test_a_call_in_a_namespace_is_told_in_the_client_s_terms(says: Says, wire: Wire) -> None:
    says(*calling("mcp__tracker__create_issue", '{"a":', "1}"))
    got = await stream(wire, tools=TOOLS, **OFF)
    (item,) = got.response["output"]
    call = ResponseFunctionToolCall.model_validate(item)
    assert (call.namespace, call.name, call.arguments) == (
        "mcp__tracker",
        "create_issue",
        '{"a":1}',
    )
    (done,) = got.of("response.function_call_arguments.done")
    assert done["name"] == "create_issue"
    (added,) = got.of("response.output_item.added")
    assert added["item"]["namespace"] == "mcp__tracker"


async def test_a_custom_call_is_its_text(says: Says, wire: Wire) -> None:
    arguments = json.dumps({"input": TEXT})
    says(*calling("apply_patch", arguments[:9], arguments[9:]))
    got = await stream(wire, tools=TOOLS, **OFF)
    (item,) = got.response["output"]
    call = ResponseCustomToolCallItem.model_validate(item)
    assert (call.name, call.input, call.status) == ("apply_patch", TEXT, "completed")
    assert (call.call_id, call.namespace) == ("call_1", None)
    names = [name for name in got.names if "custom" in name]
    assert names == [
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
    ]
    assert got.joined(names[0]) == got.of(names[1])[0]["input"] == TEXT


async def test_a_custom_call_that_was_cut_has_no_text(says: Says, wire: Wire) -> None:
    says(*calling("mcp__tracker__note", '{"input": "ab', end=None))
    got = await stream(wire, tools=TOOLS, **OFF)
    (item,) = got.response["output"]
    assert (item["type"], item["status"], item["input"]) == ("custom_tool_call", "incomplete", "")
    assert (item["namespace"], item["name"]) == ("mcp__tracker", "note")
    fake = says(*answer("ok"))
    _, response = await post(wire, input=[{"role": "user", "content": "x"}, item], **OFF)
    assert told(fake) == (Message("user", "x"),)
    assert response["warnings"] == ["input[1]: a call that was cut isn't shown to the model"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "a\\nb"}', "a\nb"),
        ('{"input": ""}', ""),
        ("*** Begin", "*** Begin"),
        ('{"patch": "x"}', '{"patch": "x"}'),
        ('{"input": "\\ud800"}', "\N{REPLACEMENT CHARACTER}"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_the_text_of_a_custom_call(arguments: str, text: str) -> None:
    assert text_given(arguments) == text


def told(fake: FakeInference) -> tuple[Message, ...]:
    prompt = fake.submitted[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt.messages


async def test_calls_of_before_have_the_names_that_are_offered(says: Says, wire: Wire) -> None:
    fake = says(*answer("ok"))
    where = {"namespace": "mcp__tracker"}
    items = [
        {"type": "function_call", "call_id": "1", "name": "create_issue", **where},
        {"type": "custom_tool_call", "call_id": "2", "name": "note", "input": "n", **where},
        {"type": "custom_tool_call", "call_id": "3", "name": "apply_patch", "input": TEXT},
    ]
    await post(wire, input=items, tools=TOOLS, **OFF)
    calls = told(fake)[0].tool_calls
    assert [call.name for call in calls] == list(offered(fake.submitted[-1]))
    assert calls[0] == ToolCall("1", "mcp__tracker__create_issue", "{}")
    assert [json.loads(call.arguments) for call in calls[1:]] == [{"input": "n"}, {"input": TEXT}]


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ({"type": "custom", "name": "apply_patch"}, "apply_patch"),
        (
            {"type": "function", "namespace": "mcp__tracker", "name": "create_issue"},
            "mcp__tracker__create_issue",
        ),
    ],
)
async def test_a_choice_in_the_client_s_terms(
    choice: dict[str, Any], name: str, says: Says, wire: Wire
) -> None:
    fake = says(*answer("ok"))
    status, response = await post(wire, tools=TOOLS, tool_choice=choice, **OFF)
    assert (status, response["tool_choice"]) == (200, choice)
    assert fake.submitted[-1].answer.tool_name == name
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [choice]}
    await post(wire, tools=TOOLS, tool_choice=allowed, **OFF)
    assert list(offered(fake.submitted[-1])) == [name]


async def test_a_whole_namespace_is_allowed(says: Says, wire: Wire) -> None:
    fake = says(*answer("ok"))
    allowed = {"type": "allowed_tools", "tools": [{"type": "namespace", "name": "mcp__tracker"}]}
    await post(wire, tools=TOOLS, tool_choice=allowed, **OFF)
    names = list(offered(fake.submitted[-1]))
    assert names == ["mcp__tracker__create_issue", "mcp__tracker__note"]


MANY = {**TRACKER, "tools": [{"type": "function", "name": f"f{n}"} for n in range(MAX_TOOLS)]}
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"tools": [{**TRACKER, "name": "a b"}]}, "tools[0].name"),
    ({"tools": [{**TRACKER, "description": 5}]}, "tools[0].description"),
    ({"tools": [{**TRACKER, "tools": None}]}, "tools[0].tools"),
    ({"tools": [{**TRACKER, "tools": [5]}]}, "tools[0].tools[0]"),
    ({"tools": [{**TRACKER, "tools": [{**ISSUE, "name": 5}]}]}, "tools[0].tools[0].name"),
    ({"tools": [{**TRACKER, "tools": [ISSUE, ISSUE]}]}, "tools[0].tools[1].name"),
    ({"tools": [MANY, PATCH]}, "tools"),
    ({"tools": [PATCH, PATCH]}, "tools[1].name"),
    ({"tools": [{**PATCH, "format": "lark"}]}, "tools[0].format"),
    ({"tools": [{**PATCH, "format": {"type": "xml"}}]}, "tools[0].format.type"),
    ({"tools": [{**PATCH, "format": {"type": "grammar"}}]}, "tools[0].format.syntax"),
    ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "note"}}, "tool_choice.name"),
    (
        {"tools": TOOLS, "tool_choice": {"type": "function", "name": "apply_patch"}},
        "tool_choice.name",
    ),
    ({"input": [{"type": "function_call", "name": "f", "namespace": 5}]}, "input[0].namespace"),
    ({"input": [{"type": "agent_message"}]}, "input[0].content"),
]


@pytest.mark.parametrize(("body", "param"), MISTAKES, ids=[str(n) for n in range(len(MISTAKES))])
async def test_mistakes_name_their_field(
    body: dict[str, Any], param: str, says: Says, wire: Wire
) -> None:
    says(*answer("no"))
    status, response = await post(wire, **OFF, **body)
    assert (status, response["error"]["param"]) == (400, param)


NAMES = st.text("ab_", min_size=1, max_size=40)
REFS = st.builds(ToolRef, NAMES, NAMES)


@given(one=REFS, other=REFS)
def test_no_two_tools_of_namespaces_have_one_name(one: ToolRef, other: ToolRef) -> None:
    assert len(one.offered) <= 64
    assert (one == other) == (one.offered == other.offered)


def test_names_that_could_be_split_in_two_ways_differ() -> None:
    refs = [
        ToolRef("b__c", "a"),
        ToolRef("c", "a__b"),
        ToolRef("_c", "a__b"),
        ToolRef("c", "a__b_"),
    ]
    assert len({ref.offered for ref in refs}) == len(refs)


async def test_what_codex_s_history_holds(says: Says, wire: Wire) -> None:
    fake = says(*answer("ok"))
    sealed = {"type": "encrypted_content", "encrypted_content": "gAAA"}
    text = {"type": "input_text", "text": "The tests pass."}
    items = [
        {"role": "user", "content": "Go."},
        {"type": "agent_message", "author": "/root/a", "content": [text, sealed]},
        {"type": "agent_message", "author": "/root/a", "content": [sealed]},
        {"type": "context_compaction", "encrypted_content": "gAAA"},
        {"type": "compaction_summary", "encrypted_content": "gAAA"},
        {"type": "function_call", "call_id": "1", "name": "f"},
        {"type": "function_call_output", "call_id": "1", "output": [text, sealed]},
        {"type": "riddle"},
        {"type": "x\n" * 99},
    ]
    status, response = await post(wire, input=items, **OFF)
    assert status == 200, response
    assert told(fake) == (
        Message("user", "Go."),
        Message("user", "The tests pass."),
        Message("assistant", "", tool_calls=(ToolCall("1", "f", "{}"),)),
        Message("tool", "The tests pass.", tool_call_id="1"),
    )
    assert response["warnings"] == [
        "input[2]: a message that is sealed isn't shown to the model",
        "input[3]: a context_compaction isn't shown to the model",
        "input[4]: a compaction_summary isn't shown to the model",
        "input[7]: a riddle isn't shown to the model",
        "input[8]: what has no name isn't shown to the model",
    ]
