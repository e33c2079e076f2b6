"""A running answer of a key that is revoked ends as its client can understand: from the route to a
real worker and back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from inference import api, bus
from inference.models import ModelConfig
from inference.queues.contract import Queue
from llamaweb.accounts.database import in_database
from llamaweb.accounts.models import ApiKey
from llamaweb.accounts.services import api_key_create, api_key_revoke
from llamaweb.lib.ids import new_id
from tests.edge.cases.families import BY_NAME
from tests.edge.cases.family import Family
from tests.edge.cases.said import Ask
from tests.edge.test_disconnect import WAIT_S, AsgiClient, until
from tests.worker.conftest import MODEL, Bench

pytestmark = pytest.mark.django_db(transaction=True)

CONTEXT = 8192
DELAY_MS = 10.0
LONG = "0123456789" * 600  # a token a byte: it takes several times as long as anybody waits here
NUM_FRAMES = 6  # of which some say something
KINDS = {"chat": "permission_error", "messages": "permission_error", "ollama": ""}


@pytest.fixture
def queue(redis_server: str, settings: Any) -> Iterator[Queue]:
    """The queue that the routes use."""
    settings.REDIS_URL = redis_server
    settings.REDIS_PREFIX = f"{new_id()}:"
    bus.sync_queue.cache_clear()
    yield bus.sync_queue()
    bus.sync_queue.cache_clear()


@pytest_asyncio.fixture
async def working(queue: Queue, db: None) -> AsyncIterator[Queue]:
    """A slow worker of the default model behind it."""
    await in_database(_configure)()
    bench = Bench()
    bench.queue = queue  # type: ignore[assignment]
    await asyncio.to_thread(bench.start, queue, context_len=CONTEXT, delay_ms=DELAY_MS)
    yield queue
    await api.streams_close()
    await asyncio.to_thread(bench.stop)


def _configure() -> None:
    ModelConfig.objects.create(name=MODEL, is_default=True, engine_class="mock")


@pytest.fixture
def key(alice: Any) -> tuple[ApiKey, str]:
    """A key of alice's, and its text."""
    return api_key_create(user=alice, name="k")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("family", [BY_NAME[name] for name in KINDS], ids=str)
async def test_the_end_says_why(
    working: Queue, key: tuple[ApiKey, str], family: Family, stream: bool
) -> None:
    row, text = key
    body = {**family.body(Ask(LONG)), "stream": stream}
    client = AsgiClient(family.path, key=text, **body)
    if stream:
        await until(lambda: len(client.sent) >= NUM_FRAMES)
    else:
        await until(lambda: working.load(MODEL).running == 1)
    await in_database(_revoke)(row)
    await asyncio.wait_for(client.task, WAIT_S)

    raw = b"".join(message.get("body", b"") for message in client.sent)
    if stream:
        assert client.sent[0]["status"] == 200
        told = family.read(raw)
        assert told.reply is None
        assert LONG.startswith(told.text)
        assert 0 < len(told.text) < len(LONG)
        refusal = told.error
    else:
        assert client.sent[0]["status"] == 403, raw
        refusal = family.refusal(json.loads(raw))
    assert refusal is not None
    assert refusal.kind == KINDS[family.name]
    assert "key" in refusal.message
    await until(lambda: working.load(MODEL).running == 0)


def _revoke(row: ApiKey) -> None:
    api_key_revoke(key=row)
