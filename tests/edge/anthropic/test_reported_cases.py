"""Inputs that servers of this kind got wrong in public reports, from a request to the engine (the
mock) and back, streamed and whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from inference.text.chat_template import CHATML_TEMPLATE
from tests.edge.anthropic.wire import Client
from tests.fakes.inference_api import FakeInference
from tests.fakes.mock_model import MockModel

HERMES = CHATML_TEMPLATE + "{# <think> <tool_call> #}"  # names the family, as a comment
CALLS_ONLY = CHATML_TEMPLATE + "{# <tool_call> #}"  # nothing may stand in front of a forced call
THINKS = HERMES + "{% if add_generation_prompt and enable_thinking %}{{ '<think>\n' }}{% endif %}"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"name": "clock", "input_schema": {}}, {"name": "weather", "input_schema": CITY}]
ANY = {"type": "any"}


@pytest.fixture(scope="module")
def echo() -> Iterator[MockModel]:
    """Says the last message again."""
    model = MockModel(template=HERMES)
    yield model
    model.close()


@pytest.fixture
def echoing(fake: FakeInference, echo: MockModel) -> FakeInference:
    """A server of that model."""
    fake.script = echo.script
    return fake


async def both(client: Client, said: str | None = None, **body: Any) -> dict[str, Any]:
    """The message, which is the same streamed and whole; to `said`, or to `messages`."""
    if said is not None:
        body["messages"] = [{"role": "user", "content": said}]
    body = {"temperature": 0, "max_tokens": 2000, **body}
    events = await client.stream(**body)
    status, whole = await client.ask(**body)
    assert status == 200, whole
    streamed = events.message

    def told(message: dict[str, Any]) -> tuple[Any, ...]:
        blocks = [{k: v for k, v in b.items() if k != "id"} for b in message["content"]]
        return blocks, message["stop_reason"], message["stop_sequence"]

    assert told(streamed) == told(whole)
    return whole


async def refusal(client: Client, **body: Any) -> str:
    """What is said to a mistake, the same streamed and whole."""
    status, told = await client.ask(**body)
    assert (status, told["error"]["type"]) == (400, "invalid_request_error")
    assert await client.ask(stream=True, **body) == (status, told)
    message: str = told["error"]["message"]
    return message


def text_of(message: dict[str, Any]) -> str:
    (block,) = message["content"]
    assert block["type"] == "text"
    text: str = block["text"]
    return text


@pytest.mark.parametrize(
    ("said", "stop", "text", "reason"),
    [
        pytest.param("alpha beta gamma delta", "beta gamma", "alpha ", "stop_sequence", id="T01"),
        pytest.param("why?\nbecause", "\n", "why?", "stop_sequence", id="T02"),
        pytest.param("a be beta gamm", "beta gamma", "a be beta gamm", "end_turn", id="T03"),
    ],
)
async def test_stop_sequences(
    echoing: FakeInference, client: Client, said: str, stop: str, text: str, reason: str
) -> None:
    message = await both(client, said, stop_sequences=[stop])
    assert (text_of(message), message["stop_reason"]) == (text, reason)
    assert message["stop_sequence"] == (stop if reason == "stop_sequence" else None)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("ok 😺 漢字 é", id="T05"),
        pytest.param("data: x\r\u2028\u2029\x85y\n\nid: 1\nevent: z", id="T08"),
    ],
)
async def test_any_text_comes_through(echoing: FakeInference, client: Client, said: str) -> None:
    assert text_of(await both(client, said)) == said
    events = await client.stream(messages=[{"role": "user", "content": said}])
    assert "\ufffd" not in events.raw.decode()


async def test_t06_bytes_that_are_no_character(fake: FakeInference, client: Client) -> None:
    model = MockModel("\udcf0 then text \udce6\udcbc")
    fake.script = model.script
    assert text_of(await both(client, "hello")) == "\ufffd then text \ufffd"
    model.close()


async def test_t11_a_failure_in_the_middle(fake: FakeInference, client: Client) -> None:
    model = MockModel(fail_after=10)
    fake.script = model.script
    events = await client.stream(messages=[{"role": "user", "content": "0123456789abcdef"}])
    assert events.text == "0123456789"
    assert events.data[-1]["error"]["type"] == "api_error"
    assert "message_stop" not in events.kinds
    status, body = await client.ask(messages=[{"role": "user", "content": "0123456789abcdef"}])
    assert (status, body["error"]["type"]) == (500, "api_error")
    model.close()


async def test_p01_p03_p04_any_order_of_messages(echoing: FakeInference, client: Client) -> None:
    use = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": [use]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "42"}],
        },
        {"role": "system", "content": "Now in German."},
        {"role": "user", "content": "two"},
        {"role": "user", "content": "three"},
    ]
    assert text_of(await both(client, messages=messages, system="s")) == "three"


async def test_p01_the_prefix_before_a_new_system_message_stays(
    echoing: FakeInference, client: Client
) -> None:
    first = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    later = [{"role": "system", "content": "Now in German."}, {"role": "user", "content": "three"}]
    body = {"max_tokens": 5, "system": "Be brief."}
    await client.ask(messages=[*first, {"role": "user", "content": "x"}], **body)
    _, message = await client.ask(messages=[*first, *later], **body)
    prefix = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\none<|im_end|>\n"
    prefix += "<|im_start|>assistant\ntwo<|im_end|>\n"
    assert message["usage"]["cache_read_input_tokens"] >= len(prefix)


async def test_p07_lengths(echoing: FakeInference, client: Client) -> None:
    nothing = await both(client, "hello", max_tokens=0)
    assert (nothing["content"], nothing["stop_reason"]) == ([], "max_tokens")
    three = await both(client, "hello", max_tokens=3)
    assert (text_of(three), three["stop_reason"]) == ("hel", "max_tokens")
    assert three["usage"]["output_tokens"] == 3
    huge = await both(client, "hello", max_tokens=10**9)
    assert (text_of(huge), huge["stop_reason"]) == ("hello", "end_turn")


async def test_p11_too_long_for_the_context(echoing: FakeInference, client: Client) -> None:
    long = [{"role": "user", "content": "x" * 5000}]
    message = await refusal(client, messages=long)
    assert message.startswith("prompt is too long: ")
    assert message.endswith(" tokens > 4096 maximum")
    fits = await both(client, "x" * 3000, max_tokens=10**6)
    assert fits["stop_reason"] in ("end_turn", "max_tokens")


@pytest.mark.parametrize("choice", [ANY, {"type": "tool", "name": "clock"}])
async def test_s01_a_call_is_made_whatever_is_asked(
    fake: FakeInference, client: Client, choice: Any
) -> None:
    model = MockModel(template=CALLS_ONLY)
    fake.script = model.script
    message = await both(client, "Hello, how are you today?", tools=TOOLS[:1], tool_choice=choice)
    assert message["stop_reason"] == "tool_use"
    assert {(b["type"], b["name"]) for b in message["content"]} == {("tool_use", "clock")}
    assert all(block["input"] == {} for block in message["content"])
    model.close()


CALLS = (
    '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>\n'
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich 😺"}}\n</tool_call>'
)


async def test_s03_a_call_without_parameters_then_one_with(
    echoing: FakeInference, client: Client
) -> None:
    message = await both(client, f"I look.\n{CALLS}", tools=TOOLS)
    text, clock, weather = message["content"]
    assert (text["text"], message["stop_reason"]) == ("I look.", "tool_use")
    assert (clock["name"], clock["input"]) == ("clock", {})
    assert (weather["name"], weather["input"]) == ("weather", {"city": "Zürich 😺"})
    alone = {"type": "auto", "disable_parallel_tool_use": True}
    one = await both(client, CALLS, tools=TOOLS, tool_choice=alone)
    assert [block["name"] for block in one["content"]] == ["clock"]


def form(**schema: Any) -> dict[str, Any]:
    return {"format": {"type": "json_schema", "schema": {"type": "object", **schema}}}


async def test_s05_a_pattern_that_can_not_be_read(echoing: FakeInference, client: Client) -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": "(?<=x)y"}}}
    message = await refusal(client, output_config=form(**schema))
    assert message.startswith("output_config.format.schema.properties.a.pattern: ")


async def test_s06_schemas_that_refer_to_themselves(echoing: FakeInference, client: Client) -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}}
    said = '{"root": {"next": {}}, "all": 1}'
    schema = {
        "$defs": {"tree": {**tree, "additionalProperties": False}},
        "properties": {
            "root": {"$ref": "#/$defs/tree"},
            "all": {"allOf": [{"type": "integer"}, {"minimum": 0}]},
        },
        "required": ["root", "all"],
        "additionalProperties": False,
    }
    assert text_of(await both(client, said, output_config=form(**schema))) == said
    message = await refusal(client, output_config=form(**{"not": {}}))
    assert message.startswith("output_config.format.schema.not: ")


async def test_s06_the_same_in_a_tool(echoing: FakeInference, client: Client) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    tools = [{"name": "f", "input_schema": schema, "strict": True}]
    message = await refusal(client, tools=tools, tool_choice=ANY)
    assert message.startswith("tools[0].input_schema.properties.a.uniqueItems: ")
    assert text_of(await both(client, "hello", tools=tools)) == "hello"


@pytest.mark.parametrize(
    ("said", "thought", "text"),
    [
        ("<think>Let me look.</think>" + CALLS, "Let me look.", None),
        (
            '<think>So <tool_call>{"name": "clock", "arguments": {}}</tool_call> done</think>Late.',
            "So  done",
            "Late.",
        ),
    ],
)
async def test_s11_reasoning_content_and_calls_are_apart(
    echoing: FakeInference, client: Client, said: str, thought: str, text: str | None
) -> None:
    message = await both(client, said, tools=TOOLS)
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for block in message["content"]:
        by_kind.setdefault(block["type"], []).append(block)
    assert "".join(block["thinking"] for block in by_kind["thinking"]) == thought
    assert [block["text"] for block in by_kind.get("text", [])] == ([] if text is None else [text])
    assert by_kind["tool_use"][0]["name"] == "clock"


async def test_thinking_is_turned_on_off_and_gone_on_from(
    fake: FakeInference, client: Client
) -> None:
    model = MockModel("So it is.\n</think>\nYes.", template=THINKS)
    fake.script = model.script
    on = await both(client, "hello", thinking={"type": "adaptive"})
    assert [block["type"] for block in on["content"]] == ["thinking", "text"]
    assert (on["content"][0]["thinking"], on["content"][1]["text"]) == ("So it is.", "Yes.")
    model.close()

    model = MockModel(" I do.", template=THINKS)
    fake.script = model.script
    off = await both(client, "hello", thinking={"type": "disabled"})
    assert text_of(off).strip() == "I do."
    begun = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Yes,"}]
    went_on = await both(client, messages=begun, thinking={"type": "adaptive"})
    assert text_of(went_on).strip() == "I do."
    model.close()


async def test_a_prompt_is_counted_as_it_is_read(echoing: FakeInference, client: Client) -> None:
    body = {"system": "Be brief.", "tools": TOOLS}
    _, message = await client.ask(max_tokens=0, **body)
    usage = message["usage"]
    whole = usage["input_tokens"] + usage["cache_read_input_tokens"]
    assert await client.count(**body) == (200, {"input_tokens": whole})
