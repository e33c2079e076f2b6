"""The official client of Python on a model that thinks and calls tools, without a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import httpx2 as httpx
import pytest
from anthropic import AsyncAnthropic
from django.core.asgi import get_asgi_application

from inference.protocol.events import Failed
from llamaweb.lib.errors import BusyError
from tests.edge.anthropic.test_reported_cases import CALLS, THINKS, TOOLS
from tests.edge.events import STARTED, delta
from tests.fakes.inference_api import FakeInference, scripted
from tests.fakes.mock_model import MockModel

REPLY = f"So it is.\n</think>\nI look.\n{CALLS}"
ASKED: dict[str, Any] = {
    "model": "default",
    "max_tokens": 2000,
    "extra_body": {"temperature": 0},
    "messages": [{"role": "user", "content": "hello"}],
}


@pytest.fixture(scope="module")
def thinker() -> Iterator[MockModel]:
    """Thinks, talks, and calls two tools."""
    model = MockModel(REPLY, template=THINKS)
    yield model
    model.close()


@pytest.fixture
async def official(fake: FakeInference) -> AsyncIterator[AsyncAnthropic]:
    """The client, which tries nothing twice."""
    transport = httpx.ASGITransport(app=get_asgi_application())
    async with httpx.AsyncClient(transport=transport) as http:
        yield AsyncAnthropic(
            api_key="sk-x", base_url="http://testserver", http_client=http, max_retries=0
        )


async def test_thinking_text_and_calls(
    fake: FakeInference, thinker: MockModel, official: AsyncAnthropic
) -> None:
    fake.script = thinker.script
    body: dict[str, Any] = {**ASKED, "tools": TOOLS, "thinking": {"type": "adaptive"}}
    whole = await official.messages.create(**body)
    thoughts, text, clock, weather = whole.content
    assert (thoughts.type, text.type) == ("thinking", "text")
    assert (thoughts.thinking, text.text) == ("So it is.", "I look.")
    assert thoughts.signature
    assert (clock.type, weather.type) == ("tool_use", "tool_use")
    assert (clock.name, clock.input) == ("clock", {})
    assert (weather.name, weather.input) == ("weather", {"city": "Zürich 😺"})
    assert whole.stop_reason == "tool_use"

    said: dict[str, str] = {"text": "", "thinking": "", "input_json": ""}
    async with official.messages.stream(**body) as stream:
        async for event in stream:
            if event.type == "text":
                said["text"] += event.text
            elif event.type == "thinking":
                said["thinking"] += event.thinking
            elif event.type == "input_json":
                said["input_json"] += event.partial_json
        final = await stream.get_final_message()
    assert said["text"] == "I look."
    assert said["thinking"] == "So it is."
    assert said["input_json"] == '{}{"city": "Zürich 😺"}'
    ids = {"id": None}
    assert [b.to_dict() | ids for b in final.content] == [b.to_dict() | ids for b in whole.content]
    assert final.usage.output_tokens == whole.usage.output_tokens


async def test_a_message_can_be_sent_back_with_the_results(
    fake: FakeInference, thinker: MockModel, official: AsyncAnthropic
) -> None:
    fake.script = thinker.script
    body: dict[str, Any] = {**ASKED, "tools": TOOLS, "thinking": {"type": "adaptive"}}
    whole = await official.messages.create(**body)
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": "ok"}
        for block in whole.content
        if block.type == "tool_use"
    ]
    history = [*ASKED["messages"], whole.to_param(), {"role": "user", "content": results}]
    again = await official.messages.create(**{**body, "messages": history})
    assert again.stop_reason == "tool_use"
    prompt: Any = fake.submitted[-1].prompt
    assert [m.role for m in prompt.messages] == ["user", "assistant", "tool", "tool"]
    answer = prompt.messages[1]
    assert (answer.reasoning, answer.content) == ("So it is.", "I look.")
    assert [c.id for c in answer.tool_calls] == [m.tool_call_id for m in prompt.messages[2:]]


async def test_errors_are_the_clients_own(fake: FakeInference, official: AsyncAnthropic) -> None:
    with pytest.raises(anthropic.BadRequestError) as mistake:
        await official.messages.create(**{**ASKED, "stop_sequences": ["x"] * 65})
    assert mistake.value.request_id
    assert mistake.value.type == "invalid_request_error"
    with pytest.raises(anthropic.NotFoundError):
        await official.messages.create(**{**ASKED, "model": "claude-opus-9"})
    fake.refusal = BusyError("full", reason="owner_queue_full", retry_after_s=3.0)
    with pytest.raises(anthropic.RateLimitError) as busy:
        await official.messages.create(**ASKED)
    assert busy.value.response.headers["retry-after"] == "3"
    fake.refusal = BusyError("full", reason="queue_full", retry_after_s=3.0)
    with pytest.raises(anthropic.APIStatusError) as full:
        await official.messages.create(**ASKED)
    assert (full.value.status_code, full.value.type) == (503, "overloaded_error")


async def test_a_failure_in_a_stream_is_raised(
    fake: FakeInference, official: AsyncAnthropic
) -> None:
    fake.script = scripted(STARTED, delta("x"), Failed("engine_failed", "it broke"))
    texts: list[str] = []

    async def read() -> None:
        async with official.messages.stream(**ASKED) as stream:
            texts.extend([text async for text in stream.text_stream])

    with pytest.raises(anthropic.APIStatusError) as caught:
        await read()
    assert caught.value.type == "api_error"


async def test_a_prompt_is_counted(
    fake: FakeInference, thinker: MockModel, official: AsyncAnthropic
) -> None:
    fake.script = thinker.script
    body = {name: ASKED[name] for name in ("model", "messages")}
    counted = await official.messages.count_tokens(**body)
    whole = await official.messages.create(**{**ASKED, "max_tokens": 0})
    usage = whole.usage
    assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)
