"""A server that says that it can't serve now is unavailable; its other errors are ours."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator

import pytest
import redis
from redis._parsers.base import BaseParser
from redis.exceptions import ResponseError

from inference.queues.async_queue import AsyncRedisQueue
from inference.queues.connect import async_client, reachable, sync_client, unavailable
from llamaweb.lib.errors import UnavailableError
from tests.contracts.bench import CONFIG, Bench, redis_bench
from tests.contracts.valkey import Valkey

DEADLINE_S = 20.0
BUSY_AFTER_MS = 20

NOT_NOW = (
    "MISCONF Errors writing to the AOF file: No space left on device",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "NOREPLICAS Not enough good replicas to write.",
    "CLUSTERDOWN The cluster is down",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "LOADING Redis is loading the dataset in memory",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY You can't write against a read only replica.",
)
OURS = (
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "ERR user_script:1: Script attempted to access nonexistent global variable",
    "BUSYGROUP Consumer Group name already exists",
    "NOPERM this user has no permissions to run the command",
)


@pytest.mark.parametrize("reply", NOT_NOW)
async def test_not_now(reply: str) -> None:
    with pytest.raises(UnavailableError), unavailable():
        raise BaseParser.parse_error(reply)
    with pytest.raises(UnavailableError):
        async with reachable():
            raise BaseParser.parse_error(reply)


@pytest.mark.parametrize("reply", OURS)
async def test_ours(reply: str) -> None:
    with pytest.raises(ResponseError), unavailable():
        raise BaseParser.parse_error(reply)
    with pytest.raises(ResponseError):
        async with reachable():
            raise BaseParser.parse_error(reply)


def submit_both(server: Valkey, bench: Bench) -> None:
    """Submit by each client; both are refused."""
    with pytest.raises(UnavailableError):
        bench.submit("g")

    async def submit() -> None:
        client = async_client(server.url)
        try:
            queue = AsyncRedisQueue(client, bench.prefix, CONFIG)
            with pytest.raises(UnavailableError):
                await queue.submit(bench.request("g"))
            with pytest.raises(UnavailableError):
                await queue.cancel("small", "g", "user")
        finally:
            await client.aclose()

    asyncio.run(submit())


@contextlib.contextmanager
def bench_on(server: Valkey) -> Iterator[Bench]:
    with contextlib.closing(sync_client(server.url)) as client:
        yield redis_bench(client)


def test_too_few_replicas(own_server: Valkey) -> None:
    with bench_on(own_server) as bench:
        assert bench.client is not None
        bench.client.config_set("min-replicas-to-write", 1)
        submit_both(own_server, bench)
        bench.client.config_set("min-replicas-to-write", 0)
        bench.submit("g")


def test_a_save_that_failed(own_server: Valkey) -> None:
    with bench_on(own_server) as bench:
        client = bench.client
        assert client is not None
        client.config_set("save", "3600 1000")
        (own_server.folder / "dump.rdb").mkdir()
        client.bgsave()
        deadline = time.monotonic() + DEADLINE_S
        while client.info("persistence")["rdb_last_bgsave_status"] != "err":  # type: ignore[index]
            assert time.monotonic() < deadline
            time.sleep(0.02)
        try:
            submit_both(own_server, bench)
        finally:
            client.config_set("save", "")  # or it wouldn't end
        bench.submit("g")


def test_a_script_that_runs_too_long(own_server: Valkey) -> None:
    with bench_on(own_server) as bench, contextlib.closing(sync_client(own_server.url)) as other:
        client = bench.client
        assert client is not None
        client.config_set("busy-reply-threshold", BUSY_AFTER_MS)

        def run_for_ever() -> None:
            with contextlib.suppress(ResponseError):
                other.eval("while true do end", 0)

        thread = threading.Thread(target=run_for_ever)
        thread.start()
        try:
            deadline = time.monotonic() + DEADLINE_S
            while time.monotonic() < deadline:
                try:
                    client.ping()
                    time.sleep(0.01)
                except redis.ResponseError:
                    break
            submit_both(own_server, bench)
        finally:
            client.script_kill()
            thread.join()
        bench.submit("g")
