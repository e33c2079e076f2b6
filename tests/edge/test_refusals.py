"""Which end becomes which status, before a stream begins and after."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from inference.edge import replies
from inference.protocol.events import Cancelled, Event, Failed
from llamaweb.lib.errors import BusyError, UnavailableError
from tests.edge.events import STARTED, answer, delta
from tests.edge.wire import CHAT, TEXT, Wire, parse_sse
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
TOO_LONG = Failed(
    "context_length_exceeded",
    "request (5012 tokens) exceeds the available context size (256 tokens), try increasing it",
    details=(("n_prompt_tokens", 5012), ("n_ctx", 256)),
)
ENDS: list[tuple[Event, int, str]] = [
    (TOO_LONG, 400, "exceed_context_size_error"),
    (Failed("invalid_request", "no", param="stop"), 400, "invalid_request_error"),
    (Failed("not_supported", "no"), 501, "not_supported_error"),
    (Failed("busy", "no", retryable=True), 503, "unavailable_error"),
    (Failed("deadline_exceeded", "no"), 504, "timeout_error"),
    (Failed("engine_failed", "no"), 500, "server_error"),
    (Failed("engine_crashed", "no"), 500, "server_error"),
    (Failed("model_unavailable", "no"), 503, "unavailable_error"),
    (Cancelled("shutdown"), 503, "unavailable_error"),
    (Cancelled("user"), 499, "request_cancelled"),
]


@pytest.mark.parametrize(("end", "status", "kind"), ENDS)
@pytest.mark.parametrize("stream", [True, False])
async def test_first_event_decides_the_status(
    says: Says, wire: Wire, end: Event, status: int, kind: str, stream: bool
) -> None:
    fake = says(end)
    for path in (CHAT, TEXT):
        got, body = await wire.post(path, stream=stream)
        assert got == status
        assert body["error"]["type"] == kind
        assert body["error"]["code"] == status
    assert fake.cancelled == []


@pytest.mark.parametrize(("end", "status", "kind"), ENDS)
async def test_later_it_travels_in_the_stream(
    says: Says, wire: Wire, end: Event, status: int, kind: str
) -> None:
    says(STARTED, delta("x"), end)
    got = await wire.stream(CHAT)
    assert got.text == "x"
    assert (got.data[-1]["error"]["code"], got.data[-1]["error"]["type"]) == (status, kind)
    assert not got.is_done


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("end", "should"),
    [
        (Failed("not_supported", "no"), "false"),
        (Failed("deadline_exceeded", "no", retryable=True), "false"),
        (Failed("engine_failed", "no"), None),
        (Failed("model_unavailable", "no"), None),
        (Failed("busy", "no", retryable=True), None),
        (Failed("invalid_request", "no"), None),
    ],
)
async def test_what_nobody_should_try_again_says_so(
    says: Says, wire: Wire, end: Event, should: str | None, stream: bool
) -> None:
    """The official clients try everything from 500 on again."""
    says(end)
    fields = {"prompt": "Hello", "stream": stream}
    response = await wire.raw(TEXT, json.dumps(fields).encode())
    assert response.headers.get("X-Should-Retry") == should


async def test_p11_both_numbers(says: Says, wire: Wire) -> None:
    says(TOO_LONG)
    _, body = await wire.post(CHAT)
    assert body["error"] == {
        "code": 400,
        "message": TOO_LONG.message,
        "type": "exceed_context_size_error",
        "param": None,
        "reason": "context_length_exceeded",
        "n_prompt_tokens": 5012,
        "n_ctx": 256,
    }


async def test_p11_clients_find_the_word_in_streams_too(says: Says, wire: Wire) -> None:
    says(STARTED, delta("x"), TOO_LONG)
    error = (await wire.stream(CHAT)).data[-1]["error"]
    assert (error["code"], error["reason"]) == (400, "context_length_exceeded")


async def test_a_number_that_was_not_counted_to_the_end_says_so(says: Says, wire: Wire) -> None:
    says(replace(TOO_LONG, details=(*TOO_LONG.details, ("at_least", 1))))
    status, body = await wire.post(CHAT)
    assert status == 400
    assert body["error"]["message"].startswith("request (at least 5012 tokens)")
    assert body["error"]["n_prompt_tokens"] == 5012


@pytest.mark.parametrize(
    ("reason", "status"),
    [("queue_full", 503), ("memory", 503), ("owner_queue_full", 429)],
)
async def test_full_queues(says: Says, wire: Wire, reason: str, status: int) -> None:
    fake = says(*answer("x"))
    fake.refusal = BusyError("full", reason=reason, retry_after_s=3.0)
    for stream in (True, False):
        response = await wire.client.post(
            CHAT,
            data={"messages": [{"role": "user", "content": "x"}], "stream": stream},
            content_type="application/json",
        )
        assert response.status_code == status
        assert response["Retry-After"] == "3"


async def test_a_choice_that_is_refused_takes_the_others_with_it(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    fake.refusal = UnavailableError("redis is away")
    fake.refuse_from = 2
    status, _ = await wire.post(CHAT, n=4)
    assert status == 503
    await fake.wait_cancelled(2)
    assert {g for g, _ in fake.cancelled} >= {r.generation_id for r in fake.submitted}


async def test_late_errors_come_in_the_stream(
    fake: FakeInference, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing for the longest wait: the stream opens, says it is alive, then tells."""
    monkeypatch.setattr(replies, "FIRST_EVENT_WAIT_S", 0.05)
    release = asyncio.Event()

    async def script(_request: object):  # type: ignore[no-untyped-def]
        await release.wait()
        yield Failed("model_unavailable", "no engine")

    fake.script = script
    fields = {"messages": [{"role": "user", "content": "x"}], "stream": True}
    response = await wire.client.post(
        CHAT, data={**fields, "sse_ping_interval": 1}, content_type="application/json"
    )
    assert response.status_code == 200
    assert response["X-Accel-Buffering"] == "no"
    assert response["Cache-Control"] == "no-cache"
    parts = aiter(response.streaming_content)
    assert await anext(parts) == b":\n\n"  # at once: the head goes out with it
    assert await anext(parts) == b":\n\n"  # after a second of silence
    release.set()
    got = parse_sse(b"".join([part async for part in parts]))
    assert got.data[0]["error"]["code"] == 503
    assert not got.is_done


async def test_unknown_model(fake: FakeInference, wire: Wire) -> None:
    status, body = await wire.post(CHAT, model="gpt-99")
    assert (status, body["error"]["type"]) == (404, "not_found_error")
