"""One mock instance for the tests that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inference.queues.connect import sync_client
from inference.queues.redis_queue import RedisQueue
from llamaweb.data_dir import DataDir
from tests.stack import Stack

DELAY_MS = "30"


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("faults")
    with Stack(folder, env={"LLAMAWEB_MOCK_DELAY_MS": DELAY_MS}) as stack:
        stack.wait_ready()
        yield stack


def embedded_redis_url(stack: Stack) -> str:
    """Address of an instance's own Redis."""
    data_dir = DataDir(stack.data_dir)
    return f"unix://:{data_dir.key('redis_password')}@{data_dir.redis_socket()}"


def queue_of(stack: Stack) -> RedisQueue:
    """The queue of an instance, for looking."""
    return RedisQueue(sync_client(embedded_redis_url(stack)), "llamaweb:")
