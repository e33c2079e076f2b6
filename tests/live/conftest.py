"""Live connections on the real queue, with tests that are the engine themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async

from conversations import services
from conversations.models import Conversation, Share
from inference import api, bus
from inference.models import ModelConfig
from inference.queues.contract import Queue
from inference.registry import generations
from llamaweb.lib.ids import new_id
from tests.conversations.driving import Engine
from tests.live.clients import Sockets


@pytest.fixture
def queue(redis_server: str, settings: Any) -> Iterator[Queue]:
    """The queue the services use."""
    settings.REDIS_URL = redis_server
    settings.REDIS_PREFIX = f"{new_id()}:"
    bus.sync_queue.cache_clear()
    generations._sweep_cursor.after = None
    yield bus.sync_queue()
    bus.sync_queue.cache_clear()


@pytest.fixture
def engine(queue: Queue, db: None) -> Engine:
    """An engine of the default model "mock", moved by the test."""
    ModelConfig.objects.create(name="mock", is_default=True, engine_class="mock")
    return Engine(queue)


@pytest.fixture
def chat(alice: Any, bob: Any, carol: Any, engine: Engine) -> Conversation:
    """A conversation of alice's, that bob may read."""
    conversation = services.conversation_create(user=alice)
    Share.objects.create(conversation=conversation, user=bob)
    return conversation


@pytest_asyncio.fixture
async def sockets(engine: Engine) -> AsyncIterator[Sockets]:
    """Makes sockets; all are gone at the end, and nothing of them is left."""
    made = Sockets()
    try:
        yield made
    finally:
        await made.close()
        await api.streams_close()
        await sync_to_async(_close_connections)()


def _close_connections() -> None:
    from django.db import connections

    connections.close_all()
