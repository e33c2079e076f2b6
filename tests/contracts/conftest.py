"""Every contract test runs on the queue in memory and on real servers, socket and TCP."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from inference.queues.async_queue import AsyncRedisQueue
from inference.queues.connect import async_client, sync_client
from inference.queues.reader import StreamReader
from tests.contracts.bench import CONFIG, Bench, memory_bench, redis_bench
from tests.contracts.valkey import Valkey


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, Valkey]]:
    found = {"unix": Valkey(), "tcp": Valkey(tcp=True)}
    try:
        for server in found.values():
            server.start()
        for server in found.values():
            server.settle()
        yield found
    finally:
        for server in found.values():
            server.stop()


@pytest.fixture(scope="session")
def clients(servers: dict[str, Valkey]) -> Iterator[dict[str, redis.Redis]]:
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(contextlib.closing(sync_client(server.url)))
            for name, server in servers.items()
        }


@pytest.fixture(params=["memory", "unix", "tcp"])
def bench(request: pytest.FixtureRequest, clients: dict[str, redis.Redis]) -> Bench:
    """A queue of its own for each test."""
    if request.param == "memory":
        return memory_bench()
    return redis_bench(clients[request.param])


@pytest.fixture(params=["unix", "tcp"])
def server_bench(request: pytest.FixtureRequest, clients: dict[str, redis.Redis]) -> Bench:
    """The same for what only a server has."""
    return redis_bench(clients[request.param])


@pytest.fixture
def own_server() -> Iterator[Valkey]:
    """A server that the test may kill; it keeps nothing across a restart."""
    server = Valkey()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def durable_server() -> Iterator[Valkey]:
    """A server that the test may kill; it finds all of its data again."""
    server = Valkey(aof=True)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextlib.asynccontextmanager
async def reader_on(url: str, prefix: str) -> AsyncIterator[StreamReader]:
    client = async_client(url)
    reader = StreamReader(client, AsyncRedisQueue(client, prefix, CONFIG))
    try:
        yield reader
    finally:
        await reader.close()
        await client.aclose()
