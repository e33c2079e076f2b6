"""What no other family can say, from a request to the engine (the mock) and back. Cases that all
can say are in `tests.edge.cases`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.edge.anthropic.wire import Client
from tests.fakes.inference_api import FakeInference
from tests.fakes.mock_model import HERMES, MockModel

THINKS = HERMES + "{% if add_generation_prompt and enable_thinking %}{{ '<think>\n' }}{% endif %}"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"name": "clock", "input_schema": {}}, {"name": "weather", "input_schema": CITY}]
CALLS = (
    '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>\n'
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich 😺"}}\n</tool_call>'
)


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


def text_of(message: dict[str, Any]) -> str:
    (block,) = message["content"]
    assert block["type"] == "text"
    text: str = block["text"]
    return text


async def test_no_parallel_calls(echoing: FakeInference, client: Client) -> None:
    alone = {"type": "auto", "disable_parallel_tool_use": True}
    one = await both(client, CALLS, tools=TOOLS, tool_choice=alone)
    assert [block["name"] for block in one["content"]] == ["clock"]


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
