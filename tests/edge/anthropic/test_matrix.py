"""Streamed and whole: answers, mistakes, failures, clients that leave, prompts that are too long,
and servers that are busy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from inference.edge import replies
from inference.protocol.events import Cancelled, Event, Failed
from inference.protocol.requests import GenerateRequest
from llamaweb.lib.errors import BusyError, UnavailableError
from tests.edge.anthropic.wire import MESSAGES, Client, fields, parse_events
from tests.edge.events import STARTED, answer, delta
from tests.edge.test_disconnect import AsgiClient, hanging, until
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
WAIT_S = 10.0
BOTH = pytest.mark.parametrize("stream", [True, False])
TOO_LONG = Failed(
    "context_length_exceeded", "no", details=(("n_prompt_tokens", 5012), ("n_ctx", 256))
)
ENDS: list[tuple[Event, int, str]] = [
    (TOO_LONG, 400, "invalid_request_error"),
    (Failed("invalid_request", "no", param="messages"), 400, "invalid_request_error"),
    (Failed("not_supported", "no"), 501, "api_error"),
    (Failed("busy", "no", retryable=True), 503, "overloaded_error"),
    (Failed("deadline_exceeded", "no"), 504, "timeout_error"),
    (Failed("engine_failed", "no"), 500, "api_error"),
    (Failed("engine_crashed", "no"), 500, "api_error"),
    (Failed("model_unavailable", "no"), 503, "overloaded_error"),
    (Cancelled("shutdown"), 503, "overloaded_error"),
    (Cancelled("user"), 499, "api_error"),
]


@BOTH
async def test_an_answer(says: Says, client: Client, stream: bool) -> None:
    fake = says(*answer("Hello", ", you"))
    if stream:
        message = (await client.stream()).message
    else:
        status, message = await client.ask()
        assert status == 200
    assert message == {
        "id": message["id"],
        "type": "message",
        "role": "assistant",
        "model": "tiny",
        "content": [{"type": "text", "text": "Hello, you"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 6,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 4,
            "output_tokens": 3,
        },
    }
    assert message["id"].startswith("msg_")
    assert fake.cancelled == []
    assert not fake.reading


@BOTH
async def test_a_clients_mistake(says: Says, client: Client, stream: bool) -> None:
    fake = says(*answer("x"))
    status, body = await client.ask(stream=stream, stop_sequences=5)
    assert (status, body) == (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "stop_sequences: must be text or a list of texts",
            },
        },
    )
    assert not fake.submitted


@BOTH
@pytest.mark.parametrize(("end", "status", "kind"), ENDS)
async def test_the_first_event_decides_the_status(
    says: Says, client: Client, end: Event, status: int, kind: str, stream: bool
) -> None:
    fake = says(end)
    got, body = await client.ask(stream=stream)
    assert (got, body["type"], body["error"]["type"]) == (status, "error", kind)
    assert fake.cancelled == []


@pytest.mark.parametrize(("end", "status", "kind"), ENDS)
async def test_t11_later_it_is_an_event(
    says: Says, client: Client, end: Event, status: int, kind: str
) -> None:
    says(STARTED, delta("x"), end)
    events = await client.stream()
    assert events.text == "x"
    assert events.kinds[-1] == "error"
    assert "message_stop" not in events.kinds
    assert events.data[-1]["error"]["type"] == kind
    assert events.data[-1]["error"]["message"]
    assert (await client.ask())[0] == status


@BOTH
async def test_p11_both_numbers_in_the_words_that_clients_look_for(
    says: Says, client: Client, stream: bool
) -> None:
    says(TOO_LONG)
    _, body = await client.ask(stream=stream)
    assert body["error"]["message"] == "prompt is too long: 5012 tokens > 256 maximum"


@BOTH
async def test_what_can_not_fit_is_refused_at_once(
    says: Says, client: Client, stream: bool
) -> None:
    fake = says(*answer("x"))
    long = [{"role": "user", "content": "x" * (8193 * 128)}]
    status, body = await client.ask(stream=stream, messages=long)
    assert status == 400
    assert body["error"]["message"] == "prompt is too long: at least 8193 tokens > 8192 maximum"
    assert not fake.submitted


@BOTH
@pytest.mark.parametrize(
    ("reason", "status", "kind"),
    [
        ("queue_full", 503, "overloaded_error"),
        ("memory", 503, "overloaded_error"),
        ("owner_queue_full", 429, "rate_limit_error"),
    ],
)
async def test_busy(
    says: Says, client: Client, stream: bool, reason: str, status: int, kind: str
) -> None:
    says(*answer("x")).refusal = BusyError("full", reason=reason, retry_after_s=3.0)
    response = await client.response(fields(stream=stream))
    assert (response.status_code, response["Retry-After"]) == (status, "3")
    assert json.loads(response.content)["error"] == {
        "type": kind,
        "message": "full",
        "reason": reason,
    }


@BOTH
async def test_the_server_can_not_be_asked(says: Says, client: Client, stream: bool) -> None:
    says(*answer("x")).refusal = UnavailableError("redis is away")
    response = await client.response(fields(stream=stream))
    assert (response.status_code, response["Retry-After"]) == (503, "1")


@BOTH
@pytest.mark.parametrize("events", [(), (STARTED,), (STARTED, delta("x"))])
async def test_c07_leaving_cancels(
    fake: FakeInference, stream: bool, events: tuple[Event, ...]
) -> None:
    fake.script = hanging(*events)
    asked = AsgiClient(MESSAGES, max_tokens=5, stream=stream)
    await until(lambda: bool(fake.reading))
    if stream and events:
        await asyncio.wait_for(asked.arrived.wait(), WAIT_S)
    await asked.leave()
    await fake.wait_cancelled()
    assert fake.cancelled == [(fake.submitted[0].generation_id, "reader_gone")]


async def test_a_stream_says_that_it_lives(
    fake: FakeInference, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing for the longest wait: the stream opens with a ping, then tells."""
    monkeypatch.setattr(replies, "FIRST_EVENT_WAIT_S", 0.05)
    release = asyncio.Event()

    async def script(_request: GenerateRequest) -> AsyncIterator[Event]:
        await release.wait()
        for event in answer("late"):
            yield event

    fake.script = script
    response = await client.response(fields(stream=True))
    assert response.status_code == 200
    assert response["X-Accel-Buffering"] == "no"
    parts = aiter(response.streaming_content)
    first = await anext(parts)
    assert first == b'event: ping\ndata: {"type": "ping"}\n\n'
    release.set()
    events = parse_events(first + b"".join([part async for part in parts]))
    assert events.num_pings >= 1
    assert events.message["content"] == [{"type": "text", "text": "late"}]


async def test_what_nobody_should_try_again_says_so(says: Says, client: Client) -> None:
    says(Failed("not_supported", "no"))
    assert (await client.response(fields()))["X-Should-Retry"] == "false"
    says(Failed("engine_failed", "no"))
    assert "X-Should-Retry" not in await client.response(fields())


async def test_the_id_is_where_the_official_clients_look(says: Says, client: Client) -> None:
    says(*answer("x"))
    for body in (fields(), fields(stream=True), fields(max_tokens="x"), b"{"):
        response = await client.response(body)
        assert response["Request-Id"] == response["X-Request-Id"]


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/v1/messages/batches", "post", 404), ("/v1/messages", "get", 405)],
)
async def test_other_addresses_and_methods(
    fake: FakeInference, client: Client, path: str, method: str, status: int
) -> None:
    response = await getattr(client.client, method)(path)
    assert response.status_code == status
    body: Any = json.loads(response.content)
    assert body["type"] == "error"
    kind = "not_found_error" if status == 404 else "invalid_request_error"
    assert body["error"]["type"] == kind


async def test_an_unknown_model(fake: FakeInference, client: Client) -> None:
    for ask in (client.ask, client.count):
        status, body = await ask(model="claude-sonnet-9")
        assert (status, body["error"]["type"]) == (404, "not_found_error")
        assert "claude-sonnet-9" in body["error"]["message"]
