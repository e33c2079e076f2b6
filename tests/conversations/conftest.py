"""Conversations on the real queue, with tests that are the engine themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from conversations import services
from conversations.models import Conversation
from inference import bus
from inference.models import ModelConfig
from inference.queues.contract import Queue
from inference.registry import generations
from llamaweb.lib.ids import new_id
from tests.conversations.driving import Engine


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
def chat(alice: Any, engine: Engine) -> Conversation:
    """An empty conversation of alice's."""
    return services.conversation_create(user=alice)
