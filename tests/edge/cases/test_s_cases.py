"""Tools and forms: reported inputs, from a request of each API family to the engine and back."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tests.edge.cases.conftest import CALLS_ONLY, Serve
from tests.edge.cases.families import both, refused, send, stream, whole
from tests.edge.cases.family import Family
from tests.edge.cases.said import Ask, Tool
from tests.edge.cases.table import each
from tests.edge.test_answers import ANSWERS, log_of
from tests.fakes.inference_api import FakeInference, scripted

CLOCK = Tool("clock")
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = (CLOCK, Tool("weather", CITY))
CALLS = (
    '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>\n'
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich 😺"}}\n</tool_call>'
)
CALLED = (("clock", "{}"), ("weather", '{"city": "Zürich 😺"}'))
GREETING = "Hello, how are you today?"


@each("S01")
@pytest.mark.parametrize("choice", ["required", "clock"])
async def test_a_forced_call(serve: Serve, family: Family, choice: str) -> None:
    """S01: a call is made whatever is said."""
    serve(template=CALLS_ONLY)
    reply = await both(family, Ask(GREETING, length=2000, tools=[CLOCK], choice=choice))
    assert (reply.text, reply.end) == ("", "tool_calls")
    assert set(reply.calls) == {("clock", "{}")}


@pytest.mark.parametrize("path", ["/v1/completions", "/completion"])
async def test_a_call_that_nothing_can_make(serve: Serve, path: str) -> None:
    """S01: where there are no tools, asking for a call is refused and not forgotten."""
    fake = serve()
    status, body = await send(path, {"prompt": GREETING, "tool_choice": "required"})
    assert (status, body["error"]["param"]) == (400, "tool_choice")
    assert not fake.submitted


@each("S03")
async def test_a_call_without_parameters(serve: Serve, family: Family) -> None:
    """S03: its arguments are an empty object, and the call behind it is complete."""
    serve()
    reply = await both(family, Ask(f"I look.\n{CALLS}", tools=TOOLS))
    assert (reply.text.strip(), reply.end) == ("I look.", "tool_calls")
    assert reply.calls == CALLED


@each("S04")
@pytest.mark.parametrize("said", ANSWERS)
async def test_every_cut(fake: FakeInference, family: Family, said: str) -> None:
    """S04: an answer reads the same however it was cut into two."""
    tools = None if family.name in ("text", "native", "generate") else TOOLS
    ask = Ask(tools=tools)
    fake.script = scripted(*log_of(said, set()))
    uncut = await both(family, ask)
    for cut in range(1, len(said)):
        fake.script = scripted(*log_of(said, {cut}))
        told = await stream(family, family.body(ask, stream=True))
        assert told.reply == uncut, cut


@each("S05")
@pytest.mark.parametrize("pattern", ["(", "(?<=x)y", r"(a)\1"])
async def test_a_pattern_that_can_not_be_read(serve: Serve, family: Family, pattern: str) -> None:
    """S05: it is refused before anything is written, with its place."""
    serve()
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    refusal = await refused(family, family.body(Ask(schema=schema)))
    assert refusal.param == f"{family.schema}.properties.a.pattern"


TREE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}
KEPT: list[Any] = [
    pytest.param(
        {"$defs": {"tree": TREE}, "$ref": "#/$defs/tree"},
        {"name": "a", "children": [{"name": "b"}, {"name": "c", "children": []}]},
        id="tree",
    ),
    pytest.param(
        {
            "$defs": {"one": {"type": "integer"}},
            "type": "object",
            "properties": {"numbers": {"type": "array", "items": {"$ref": "#/$defs/one"}}},
            "required": ["numbers"],
            "additionalProperties": False,
        },
        {"numbers": [1, 2, 3]},
        id="items",
    ),
    pytest.param(
        {
            "type": "object",
            "properties": {"all": {"allOf": [{"type": "integer"}, {"minimum": 0}]}},
            "required": ["all"],
            "additionalProperties": False,
        },
        {"all": 1},
        id="allOf",
    ),
]


@each("S06")
@pytest.mark.parametrize(("schema", "value"), KEPT)
async def test_a_form_is_kept(serve: Serve, family: Family, schema: Any, value: Any) -> None:
    """S06: definitions, references to items, trees and allOf."""
    said = json.dumps(value)
    serve()
    reply = await both(family, Ask(said, schema=schema, length=2000))
    assert (reply.text, reply.end) == (said, "stop")
    serve("no JSON at all")
    reply = await both(family, Ask(schema=schema, length=2000))
    if reply.end == "stop":
        jsonschema.validate(json.loads(reply.text), schema)


@each("S06")
async def test_any_of_beside_properties(serve: Serve, family: Family) -> None:
    """S06: both hold, or it is refused by name."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        "additionalProperties": False,
    }
    serve("{}")
    status, body = await send(family.path, family.body(Ask(schema=schema, length=200)))
    if status == 200:
        reply = family.reply(body)
        assert reply.end == "length" or jsonschema.validate(json.loads(reply.text), schema) is None
    else:
        refusal = family.refusal(body)
        assert (status, refusal.param) == (400, f"{family.schema}.anyOf")


@each("S06")
async def test_a_keyword_that_can_not_be_kept(serve: Serve, family: Family) -> None:
    """S06: it is named with its place."""
    serve()
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    refusal = await refused(family, family.body(Ask(schema=schema)))
    assert refusal.param == f"{family.schema}.properties.a.uniqueItems"


@each("S06", only=("chat", "responses", "messages"))
async def test_a_keyword_in_a_tool(serve: Serve, family: Family) -> None:
    """S06: where a strict tool has it, it is refused, too, and so is a call that is forced."""
    serve()
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    body = family.body(Ask(tools=[CLOCK, Tool("f", schema, strict=True)], choice="required"))
    refusal = await refused(family, body)
    assert refusal.param == f"{family.tool_schema.format(1)}.properties.a.uniqueItems"
    if family.name in LEAVES_OUT:
        body["tools"][0] = FOREIGN[family.name]
        assert (await refused(family, body)).param == refusal.param


@each("S06", only=("chat", "responses"))
async def test_a_keyword_in_a_tool_that_alone_is_allowed(serve: Serve, family: Family) -> None:
    """S06: its place is that in the request, whatever the model is shown."""
    serve()
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    body = family.body(Ask(tools=[CLOCK, Tool("f", schema, strict=True)]))
    refusal = await refused(family, {**body, "tool_choice": ALLOWED_F[family.name]})
    assert refusal.param == f"{family.tool_schema.format(1)}.properties.a.uniqueItems"


ALLOWED_F: dict[str, Any] = {
    "chat": {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "required",
            "tools": [{"type": "function", "function": {"name": "f"}}],
        },
    },
    "responses": {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "f"}],
    },
}
OUTPUTS: dict[str, Any] = {
    "chat": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
    "responses": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
}
OUTPUTS["messages"] = OUTPUTS["ollama"] = OUTPUTS["chat"]


@each("S09")
async def test_outputs_in_parts(serve: Serve, family: Family) -> None:
    """S09: what a tool said is a text or a list of parts."""
    fake = serve()
    call = {"id": "c1", "function": {"name": "clock", "arguments": "{}"}}
    for output in (OUTPUTS[family.name], "a\n\nb"):
        result = {"role": "tool", "tool_call_id": "c1", "content": output}
        history = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "tool_calls": [call]},
            result,
        ]
        await whole(family, family.body(Ask(messages=history)))
    prompts: Any = [request.prompt for request in fake.submitted]
    assert prompts[0] == prompts[1]
    assert prompts[0].messages[-1].content == "a\n\nb"


FOREIGN: dict[str, dict[str, Any]] = {
    "chat": {"type": "web_search"},
    "responses": {"type": "web_search"},
    "messages": {"type": "web_search_20250305", "name": "web_search"},
    "ollama": {"type": "web_search"},
}
LEAVES_OUT = ("responses", "messages")  # their clients send such tools unasked


@each("S09")
async def test_tools_of_other_servers(serve: Serve, family: Family) -> None:
    """S09: they are left out with a note where clients send them by themselves, else refused."""
    fake = serve()
    body = family.body(Ask("hello", tools=[CLOCK]))
    body["tools"].append(FOREIGN[family.name])
    if family.name not in LEAVES_OUT:
        assert (await refused(family, body)).param == "tools[1].type"
        assert not fake.submitted
        return
    status, told = await send(family.path, body)
    assert (status, family.reply(told).text) == (200, "hello")
    (warning,) = told["warnings"]
    assert warning.startswith("tools[1]: web_search")
    prompt: Any = fake.submitted[-1].prompt
    assert [t["function"]["name"] for t in json.loads(prompt.tools_json)] == ["clock"]
    forced = {**body, "tools": [FOREIGN[family.name]], "tool_choice": family.choice("required")}
    assert (await refused(family, forced)).param == "tool_choice"


@each("S11")
async def test_reasoning_and_text(serve: Serve, family: Family) -> None:
    """S11: thoughts are no text, and no tag is said."""
    serve()
    reply = await both(family, Ask("<think>Let me look.</think>It is noon."))
    assert (reply.reasoning, reply.text) == ("Let me look.", "It is noon.")


@each("S03", "S11")
@pytest.mark.parametrize(
    ("said", "thought", "text", "calls"),
    [
        pytest.param(
            f"<think>Let me look.</think>{CALLS}", "Let me look.", "", CALLED, id="behind"
        ),
        pytest.param(
            '<think>So <tool_call>{"name": "clock", "arguments": {}}</tool_call> done</think>Late.',
            "So  done",
            "Late.",
            CALLED[:1],
            id="inside",
        ),
    ],
)
async def test_reasoning_text_and_calls(
    serve: Serve, family: Family, said: str, thought: str, text: str, calls: Any
) -> None:
    """S11: a call behind thoughts and inside of them; each goes to its own place."""
    serve()
    reply = await both(family, Ask(said, tools=TOOLS))
    assert (reply.reasoning, reply.text, reply.calls) == (thought, text, calls)
    assert reply.end == "tool_calls"
