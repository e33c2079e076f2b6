"""Services against the real queue, on both databases and on both kinds of Redis."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inference import bus
from inference.protocol.params import Limits, SamplingParams
from inference.protocol.requests import ChatPrompt, GenerateRequest, Message
from inference.queues.contract import Queue
from inference.registry import generations
from inference.registry.generations import ON_FINISH
from llamaweb.lib.ids import new_id
from tests.servers import valkey


@pytest.fixture(scope="session")
def tcp_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("redis")
    with valkey(folder) as url:
        yield url


@pytest.fixture(params=["embedded", "tcp"], autouse=True)
def queue(request: pytest.FixtureRequest, settings: Any) -> Iterator[Queue]:
    """The queue the services use; both ways of reaching a server."""
    name = "redis_server" if request.param == "embedded" else "tcp_redis"
    settings.REDIS_URL = request.getfixturevalue(name)
    settings.REDIS_PREFIX = f"{new_id()}:"
    bus.sync_queue.cache_clear()
    generations._sweep_cursor.after = None
    yield bus.sync_queue()
    bus.sync_queue.cache_clear()


def owned(owner: Any, text: str = "hi", **values: Any) -> GenerateRequest:
    now = time.time()
    return GenerateRequest(
        **{
            "generation_id": new_id("gen-"),
            "model": "mock",
            "owner_key": f"user:{owner.pk}",
            "cache_scope": f"user:{owner.pk}",
            "prompt": ChatPrompt((Message("user", text),)),
            "seed": 1,
            "submitted_at": now,
            "deadline_at": now + 60,
            "sampling": SamplingParams(temperature=0.0),
            "limits": Limits(),
            "on_finish": ON_FINISH,
            "keep": True,
        }
        | values
    )
