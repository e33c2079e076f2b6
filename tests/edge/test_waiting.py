"""What clients of the API hear while the model they wait for isn't in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import replace

import httpx2 as httpx
import openai
import pytest
from django.core.asgi import get_asgi_application
from django.http import HttpRequest

from inference import api
from inference.api import ModelInfo
from inference.edge import replies, waiting
from inference.protocol.events import Event, Failed
from inference.protocol.reasons import Other, Reason, reason, reason_info
from inference.protocol.requests import GenerateRequest
from inference.queues.contract import EngineStatus, Position, Read
from inference.queues.terminals import DEADLINE
from llamaweb.accounts.auth import ApiKeyAuth
from llamaweb.accounts.caller import Caller
from llamaweb.lib.errors import UnavailableError
from llamaweb.lib.event_stream import MAX_COMMENT_CHARS, comment
from tests.edge.conftest import CALLER
from tests.edge.events import answer
from tests.edge.wire import CHAT, TEXT, Streamed, Wire
from tests.fakes.inference_api import FakeInference

HELD = reason("model tiny waits for memory: ", Other("secret"), " is answering 1 request")
LOADING = reason("model tiny is loading")
HIDDEN = "model tiny waits for memory: another model is answering 1 request"
WAIT_S = 10.0


class Engines:
    """What heartbeats say, one after the other: the last one from then on. `looks` at them so far;
    a script goes on when all was seen."""

    def __init__(self, *said: Reason | None) -> None:
        self.said, self.looks = said, 0

    async def list(self, _model: str) -> tuple[EngineStatus, ...]:
        why = self.said[min(self.looks, len(self.said) - 1)]
        self.looks += 1
        if why is None:
            return (EngineStatus("e", "ready", 1, 0, 0.1, False, {"max_context": 512}),)
        return (EngineStatus("supervisor", "stopped", 0, 0, 0.1, False, reason_info(why)),)

    def then(
        self, *events: Event
    ) -> Callable[[GenerateRequest], AsyncIterator[Event | Position | Read]]:
        async def script(_request: GenerateRequest) -> AsyncIterator[Event | Position | Read]:
            yield Position(0, 1)
            async with asyncio.timeout(WAIT_S):
                while self.looks < len(self.said) + 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            for event in events:
                yield event

        return script


Waits = Callable[..., Engines]


@pytest.fixture
def waits(fake: FakeInference, monkeypatch: pytest.MonkeyPatch) -> Waits:
    """Let engines say these reasons first (None: one is ready), then the events come."""
    monkeypatch.setattr(waiting, "LOOK_S", 0.005)
    monkeypatch.setattr(replies, "FIRST_EVENT_WAIT_S", 0.001)

    def waits(*said: Reason | None, then: tuple[Event, ...]) -> Engines:
        engines = Engines(*said)
        monkeypatch.setattr(api, "engine_list", engines.list)
        fake.script = engines.then(*then)
        return engines

    return waits


def comments(got: Streamed) -> list[str]:
    return [block[2:] for block in got.raw.decode().split("\n\n") if block.startswith(": ")]


@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_a_stream_says_each_reason_once(path: str, waits: Waits, wire: Wire) -> None:
    waits(HELD, HELD, LOADING, LOADING, None, then=tuple(answer("Hi", " there")))
    got = await wire.stream(path)
    assert comments(got) == [HIDDEN, LOADING.text]
    assert (got.text, got.is_done) == ("Hi there", True)


async def test_models_are_named_to_who_may_use_them(
    waits: Waits, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def both(user_id: int, only: Collection[str]) -> list[ModelInfo]:
        assert user_id == 7
        names = [name for name in ("tiny", "secret") if name in (only or (name,))]
        return [ModelInfo(name, 0, 4, "mock") for name in names]

    async def limited(self: ApiKeyAuth, request: HttpRequest) -> Caller:
        return replace(CALLER, model_names=frozenset({"tiny"}))

    monkeypatch.setattr(api, "model_list_for", both)
    waits(HELD, then=tuple(answer("Hi")))
    assert comments(await wire.stream(CHAT)) == [HELD.text]
    monkeypatch.setattr(ApiKeyAuth, "__call__", limited)
    waits(HELD, then=tuple(answer("Hi")))
    assert comments(await wire.stream(CHAT)) == [HIDDEN]


async def test_the_official_client_notices_nothing(waits: Waits) -> None:
    waits(HELD, LOADING, then=tuple(answer("Hi", " there")))
    transport = httpx.ASGITransport(app=get_asgi_application())
    async with httpx.AsyncClient(transport=transport) as http:
        client = openai.AsyncOpenAI(
            api_key="sk-x", base_url="http://testserver/v1", http_client=http, max_retries=0
        )
        stream = await client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "Hello"}], stream=True
        )
        texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert texts == ["", "Hi", " there", ""]


async def test_without_keep_alive_nothing_is_said(waits: Waits, wire: Wire) -> None:
    waits(HELD, then=tuple(answer("Hi")))
    got = await wire.stream(CHAT, sse_ping_interval=-1)
    assert (comments(got), got.text) == ([], "Hi")


async def test_a_queue_that_cannot_be_reached_ends_no_stream(
    waits: Waits, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = waits(HELD, then=tuple(answer("Hi")))

    async def away(model: str) -> tuple[EngineStatus, ...]:
        await engines.list(model)
        raise UnavailableError("redis is away")

    monkeypatch.setattr(api, "engine_list", away)
    got = await wire.stream(CHAT)
    assert (comments(got), got.text) == ([], "Hi")


async def test_who_waited_in_vain_is_told_for_what(waits: Waits, wire: Wire) -> None:
    waits(HELD, then=(DEADLINE,))
    response = await wire.raw(CHAT, b'{"messages": [{"role": "user", "content": "Hi"}]}')
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (503, "unavailable_error")
    assert error["message"] == f"the request's time is over: {HIDDEN}"
    assert response["Retry-After"] == "1"
    waits(HELD, then=(DEADLINE,))
    got = await wire.stream(CHAT)
    assert got.data == [{"error": error}]
    assert not got.is_done


async def test_a_model_that_was_there_is_not_to_blame(waits: Waits, wire: Wire) -> None:
    waits(HELD, None, then=(DEADLINE,))
    status, body = await wire.post(CHAT)
    assert (status, body["error"]["type"]) == (504, "timeout_error")
    begun, *_ = answer("Hi")
    waits(HELD, then=(begun, DEADLINE))
    assert (await wire.post(CHAT))[0] == 504
    waits(HELD, then=(Failed("model_unavailable", "no such file"),))
    status, body = await wire.post(CHAT)
    assert (status, body["error"]["message"]) == (503, "no such file")


def test_a_comment_is_one_line_and_bounded() -> None:
    assert comment("a\r\ndata: {}\n\n\u2028b") == b": a data: {} b\n\n"
    assert len(comment("x" * 10_000)) == MAX_COMMENT_CHARS + 4
