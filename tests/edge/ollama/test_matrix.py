"""Both routes that write, streamed and not, in all the ways a request can go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from django.conf import settings

from inference.edge import replies
from inference.protocol.events import Cancelled, Event, Failed
from inference.protocol.requests import GenerateRequest
from llamaweb.lib.errors import BusyError, UnavailableError
from tests.edge.events import STARTED, answer, delta
from tests.edge.ollama.lines import CHAT, PATHS, Ollama, joined, lines_of, with_prompt
from tests.edge.test_disconnect import AsgiClient, hanging, until
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
TOO_LONG = Failed(
    "context_length_exceeded",
    "request (5012 tokens) exceeds the available context size (256 tokens), try increasing it",
    details=(("n_prompt_tokens", 5012), ("n_ctx", 256)),
)
both = pytest.mark.parametrize("path", PATHS)
streamed_or_not = pytest.mark.parametrize("stream", [True, False])


@both
async def test_ok_streamed(says: Says, ollama: Ollama, path: str) -> None:
    says(*answer("Hel", "lo 😺"))
    lines = await ollama.stream(path)
    assert [line["done"] for line in lines] == [False, False, True]
    assert joined(path, lines)["content"] == "Hello 😺"
    assert {line["model"] for line in lines} == {"tiny"}
    assert len({line["created_at"] for line in lines}) == 1
    assert lines[-1]["done_reason"] == "stop"


@both
async def test_ok_whole(says: Says, ollama: Ollama, path: str) -> None:
    says(*answer("Hel", "lo 😺"))
    status, body = await ollama.post(path)
    assert status == 200
    text = body["message"]["content"] if path == CHAT else body["response"]
    assert text == "Hello 😺"
    assert body["done"] is True
    assert body["created_at"].endswith("Z")
    times = {name: value for name, value in body.items() if name.endswith("_duration")}
    assert times == {
        "total_duration": 111_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_duration": 60_000_000,
        "eval_duration": 50_000_000,
    }
    assert (body["prompt_eval_count"], body["eval_count"]) == (10, 3)


@both
async def test_streaming_is_the_default(says: Says, ollama: Ollama, path: str) -> None:
    says(*answer("x"))
    response = await ollama.raw(path, json.dumps(with_prompt(path, {})).encode())
    assert response.streaming
    assert len(lines_of(b"".join([part async for part in response.streaming_content]))) == 2


@both
@streamed_or_not
async def test_client_error(fake: FakeInference, ollama: Ollama, path: str, stream: bool) -> None:
    status, body = await ollama.post(path, stream=stream, options={"temperature": "hot"})
    assert status == 400
    assert set(body) == {"error"}
    assert body["error"].startswith("options.temperature: ")
    assert not fake.submitted


@both
@streamed_or_not
@pytest.mark.parametrize(
    ("end", "status"),
    [
        (TOO_LONG, 400),
        (Failed("invalid_request", "no", param="format"), 400),
        (Failed("not_supported", "no"), 501),
        (Failed("busy", "no", retryable=True), 503),
        (Failed("deadline_exceeded", "no"), 504),
        (Failed("engine_failed", "no"), 500),
        (Cancelled("user"), 499),
    ],
)
async def test_what_the_engine_refuses_has_its_status(
    says: Says, ollama: Ollama, path: str, stream: bool, end: Event, status: int
) -> None:
    says(end)
    got, body = await ollama.post(path, stream=stream)
    assert got == status
    assert isinstance(body["error"], str)


@both
@streamed_or_not
async def test_p11_too_long(says: Says, ollama: Ollama, path: str, stream: bool) -> None:
    says(TOO_LONG)
    status, body = await ollama.post(path, stream=stream)
    assert (status, body) == (400, {"error": TOO_LONG.message})


@both
async def test_t11_a_failure_in_the_middle_of_a_stream(
    says: Says, ollama: Ollama, path: str
) -> None:
    says(STARTED, *(delta("x") for _ in range(10)), Failed("engine_failed", "it broke"))
    lines = await ollama.stream(path)
    assert lines[-1] == {"error": "it broke"}
    assert joined(path, lines[:-1])["content"] == "x" * 10
    assert not any(line["done"] for line in lines[:-1])


@both
async def test_a_failure_in_the_middle_of_a_whole_reply(
    says: Says, ollama: Ollama, path: str
) -> None:
    says(STARTED, delta("x"), Failed("engine_failed", "it broke"))
    assert await ollama.post(path) == (500, {"error": "it broke"})


@both
@streamed_or_not
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BusyError("too many wait", reason="owner_queue_full", retry_after_s=5), 429),
        (BusyError("too many wait", reason="queue_full", retry_after_s=5), 503),
        (UnavailableError("redis is away"), 503),
    ],
)
async def test_busy(
    fake: FakeInference, ollama: Ollama, path: str, stream: bool, error: Any, status: int
) -> None:
    fake.refusal = error
    fields = with_prompt(path, {"stream": stream})
    response = await ollama.raw(path, json.dumps(fields).encode())
    assert response.status_code == status
    assert json.loads(response.content)["error"] == error.message
    assert int(response["Retry-After"]) >= 1


@both
@streamed_or_not
async def test_cancel(fake: FakeInference, path: str, stream: bool) -> None:
    fake.script = hanging(STARTED, delta("x"))
    client = AsgiClient(path, **with_prompt(path, {"stream": stream}))
    if stream:
        await asyncio.wait_for(client.arrived.wait(), 10)
    else:
        await until(lambda: bool(fake.submitted))
    await client.leave()
    await fake.wait_cancelled()
    assert fake.cancelled == [(fake.submitted[0].generation_id, "reader_gone")]


async def test_silence_is_no_line(
    fake: FakeInference, ollama: Ollama, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The official client reads an empty line as JSON, and fails."""
    monkeypatch.setattr(replies, "FIRST_EVENT_WAIT_S", 0.01)
    monkeypatch.setattr(settings, "SSE_PING_S", 0.01)
    may_go_on = asyncio.Event()

    async def slow(_request: GenerateRequest) -> AsyncIterator[Event]:
        await may_go_on.wait()
        for event in answer("late"):
            yield event

    fake.script = slow
    response = await ollama.raw(CHAT, json.dumps(with_prompt(CHAT, {})).encode())
    data = b""
    async for part in response.streaming_content:
        data += part
        if len(data) == 3:
            assert data == b"   "
            may_go_on.set()
    assert joined(CHAT, lines_of(data))["content"] == "late"
