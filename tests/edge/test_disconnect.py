"""A client that leaves: its generations are cancelled, at whatever moment it goes."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from django.core.asgi import get_asgi_application

from inference.edge.asking import SubmitContext
from inference.edge.openai.convert import chat_requests
from inference.edge.openai.schemas import ChatCompletionIn
from inference.edge.openai.wire import OpenAIWire
from inference.edge.replies import reply
from inference.protocol.events import Event, Failed
from inference.protocol.requests import GenerateRequest
from tests.edge.conftest import CALLER
from tests.edge.events import STARTED, answer, delta
from tests.edge.wire import CHAT, HELLO, Wire
from tests.fakes.inference_api import FakeInference
from tests.until import until

WAIT_S = 10.0


@functools.cache  # made once: it costs more than what is asked of it
def application() -> Any:
    """All routes."""
    return get_asgi_application()


class AsgiClient:
    """One request over ASGI, as the web server makes it, with a `key` unless the caller is known
    without; `leave` drops the connection."""

    def __init__(self, path: str = CHAT, *, key: str = "", **body: Any) -> None:
        self.data = json.dumps({"messages": HELLO, **body}).encode()
        self.sent: list[dict[str, Any]] = []
        self.arrived = asyncio.Event()
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": self.data})
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [
                (b"host", b"testserver"),
                (b"content-type", b"application/json"),
                (b"content-length", str(len(self.data)).encode()),
                *([(b"authorization", f"Bearer {key}".encode())] if key else []),
            ],
            "server": ("testserver", 80),
            "client": ("127.0.0.1", 1),
            "http_version": "1.1",
            "scheme": "http",
        }
        self.task = asyncio.ensure_future(application()(scope, self._incoming.get, self._send))

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        if message.get("body"):
            self.arrived.set()

    async def leave(self) -> None:
        """Drop the connection and wait until the server noticed."""
        self._incoming.put_nowait({"type": "http.disconnect"})
        await asyncio.wait_for(self.task, WAIT_S)


def hanging(*events: Event) -> Callable[[GenerateRequest], AsyncIterator[Event]]:
    """Events, then nothing for ever."""

    async def script(_request: GenerateRequest) -> AsyncIterator[Event]:
        for event in events:
            yield event
        await asyncio.Event().wait()

    return script


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("events", [(), (STARTED,), (STARTED, delta("x"))])
async def test_c07_leaving_cancels(
    fake: FakeInference, stream: bool, events: tuple[Event, ...]
) -> None:
    fake.script = hanging(*events)
    client = AsgiClient(stream=stream)
    await until(lambda: bool(fake.reading), WAIT_S)
    if stream and events:
        await asyncio.wait_for(client.arrived.wait(), WAIT_S)
    await client.leave()
    await fake.wait_cancelled()
    assert fake.cancelled == [(fake.submitted[0].generation_id, "reader_gone")]


async def test_every_choice_is_cancelled(fake: FakeInference) -> None:
    fake.script = hanging(STARTED, delta("x"))
    client = AsgiClient(stream=True, n=3)
    await until(lambda: len(fake.reading) == 3, WAIT_S)
    await client.leave()
    await fake.wait_cancelled(3)
    assert {g for g, _ in fake.cancelled} == {r.generation_id for r in fake.submitted}


async def test_a_response_that_is_never_sent_cancels(fake: FakeInference) -> None:
    """The client left between the view's return and the first byte."""
    fake.script = hanging(STARTED, delta("x"))
    context = SubmitContext("user:7", "user:7", "tiny", 4, 0.0, 600.0)
    requests = chat_requests(ChatCompletionIn(messages=[]), context)
    response = await reply(requests, OpenAIWire(requests), stream=True, ping_s=None, caller=CALLER)
    assert fake.reading
    del response
    gc.collect()
    await fake.wait_cancelled()


async def test_a_complete_answer_is_not_cancelled(fake: FakeInference, wire: Wire) -> None:
    async def script(_request: GenerateRequest) -> AsyncIterator[Event]:
        for event in answer("a", "b"):
            yield event

    fake.script = script
    assert (await wire.stream(CHAT)).text == "ab"
    assert (await wire.post(CHAT))[0] == 200
    await asyncio.sleep(0)
    assert fake.cancelled == []
    assert not fake.reading


async def test_a_failed_choice_cancels_the_others(fake: FakeInference, wire: Wire) -> None:
    async def script(request: GenerateRequest) -> AsyncIterator[Event]:
        yield STARTED
        if request is fake.submitted[0]:
            yield Failed("engine_failed", "it broke")
        await asyncio.Event().wait()

    fake.script = script
    status, _ = await wire.post(CHAT, n=2)
    assert status == 500
    await fake.wait_cancelled()
    assert fake.cancelled == [(fake.submitted[1].generation_id, "reader_gone")]
