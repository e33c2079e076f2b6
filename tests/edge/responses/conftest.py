"""Stored responses on the real queue, with tests that are the engine themselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.core.asgi import get_asgi_application
from django.test import AsyncClient

from inference import api, bus
from inference.models import ModelConfig
from inference.protocol.events import Event, Started, Terminal
from inference.queues.contract import Queue
from inference.registry import generations
from llamaweb.lib.ids import new_id
from tests.conversations.driving import Engine
from tests.edge.responses.events import PATH, Events, events_of, read
from tests.factories import make_key

WAIT_S = 10.0


@pytest.fixture
def queue(redis_server: str, settings: Any) -> Iterator[Queue]:
    """The queue the services use."""
    settings.REDIS_URL = redis_server
    settings.REDIS_PREFIX = f"{new_id()}:"
    bus.sync_queue.cache_clear()
    generations._sweep_cursor.after = None
    yield bus.sync_queue()
    bus.sync_queue.cache_clear()


class Connection:
    """One request over ASGI, as the web server makes it; `leave` drops the connection."""

    def __init__(self, headers: dict[str, str], **body: Any) -> None:
        data = json.dumps(body).encode()
        self.sent = b""
        self._arrived = asyncio.Event()
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": data})
        told = {"Host": "testserver", "Content-Length": str(len(data)), **headers}
        scope = {
            "type": "http",
            "method": "POST",
            "path": PATH,
            "query_string": b"",
            "headers": [(name.lower().encode(), text.encode()) for name, text in told.items()],
            "server": ("testserver", 80),
            "client": ("127.0.0.1", 1),
            "http_version": "1.1",
            "scheme": "http",
        }
        application = get_asgi_application()
        self.task = asyncio.ensure_future(application(scope, self._incoming.get, self._send))

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent += message.get("body", b"")
        if self.sent:
            self._arrived.set()

    async def leave(self) -> None:
        """When something has arrived; until the server noticed."""
        await asyncio.wait_for(self._arrived.wait(), WAIT_S)
        self._incoming.put_nowait({"type": "http.disconnect"})
        await asyncio.wait_for(self.task, WAIT_S)


class World:
    """alice's client, and the engine that answers her."""

    def __init__(self, engine: Engine, user: Any, **key: Any) -> None:
        self.engine = engine
        self.user = user
        self.client = AsyncClient()
        self.headers = {"Authorization": f"Bearer {make_key(user, **key)}"}

    async def send(self, path: str = "", **body: Any) -> Any:
        """POST; the response itself."""
        data = json.dumps({"input": "Hello", **body} if not path else body)
        return await self.client.post(
            f"{PATH}{path}", data=data, content_type="application/json", headers=self.headers
        )

    async def raw(self, path: str) -> Any:
        """GET; the response itself."""
        return await self.client.get(f"{PATH}/{path}", headers=self.headers)

    async def delete(self, response_id: str) -> Any:
        """DELETE; the response itself."""
        return await self.client.delete(f"{PATH}/{response_id}", headers=self.headers)

    async def get(self, path: str) -> tuple[int, Any]:
        """Status and parsed body."""
        response = await self.raw(path)
        return response.status_code, json.loads(response.content)

    async def get_stream(self, response_id: str, after: int | None = None) -> Events:
        """The events of a stored response."""
        query = "" if after is None else f"&starting_after={after}"
        response = await self.raw(f"{response_id}?stream=true{query}")
        assert response.status_code == 200
        return events_of(await read(response), 0 if after is None else after + 1)

    async def claimed(self, *, says_so: bool = True) -> str:
        """The engine takes the next request, and says so in its log; the generation's id."""
        async with asyncio.timeout(WAIT_S):
            while not (claims := self.engine.queue.claim("mock", "e", slots=9, idle=True)):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        (claim,) = claims
        generation_id = claim.request.generation_id
        self.engine.running[generation_id] = (claim, 0)
        if says_so:
            self.engine.write(generation_id, Started(3, 1))
        return generation_id

    async def begin(self, *events: Event, **body: Any) -> tuple[str, Any]:
        """Ask for a stream, of which the engine writes `events`; the generation's id and the
        response."""
        task = asyncio.create_task(self.send(stream=True, **body))
        generation_id = await self.claimed()
        if events:
            self.engine.write(generation_id, *events)
        async with asyncio.timeout(WAIT_S):
            response = await task
        assert response.status_code == 200, response.content
        return generation_id, response

    async def whole(
        self, *events: Event, terminal: Terminal | None = None, text: str = "", **body: Any
    ) -> dict[str, Any]:
        """Ask for a whole response that the engine writes; its object."""
        task = asyncio.create_task(self.send(**body))
        generation_id = await self.claimed()
        if events:
            self.engine.write(generation_id, *events)
        self.engine.end(generation_id, terminal, text)
        async with asyncio.timeout(WAIT_S):
            response = await task
        assert response.status_code == 200, response.content
        made: dict[str, Any] = json.loads(response.content)
        return made


@pytest.fixture
def engine(queue: Queue, db: None) -> Engine:
    """An engine of the default model "mock", moved by the test."""
    ModelConfig.objects.create(name="mock", is_default=True, engine_class="mock")
    return Engine(queue)


@pytest_asyncio.fixture
async def world(engine: Engine, alice: Any) -> AsyncIterator[World]:
    """See the class; nothing of it is left at the end."""
    yield await sync_to_async(World)(engine, alice)
    await _close()


@pytest_asyncio.fixture
async def strange(engine: Engine, carol: Any) -> AsyncIterator[World]:
    """carol's client, who must see nothing."""
    yield await sync_to_async(World)(engine, carol)
    await _close()


async def _close() -> None:
    await api.streams_close()
    await sync_to_async(_close_connections)()


def _close_connections() -> None:
    from django.db import connections

    connections.close_all()
