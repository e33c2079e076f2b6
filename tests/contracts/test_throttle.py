"""Calls are joined, and the last ask is always followed by one."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from inference.queues import reader as reader_module
from inference.queues.throttle import Throttle
from llamaweb.lib.errors import UnavailableError
from tests.contracts.bench import MODEL, Bench, address_of
from tests.contracts.conftest import reader_on
from tests.until import until

EVERY_S = 0.05
DEADLINE_S = 20.0


async def test_many_asks_are_two_calls() -> None:
    calls: list[str] = []

    async def call(key: str) -> None:
        calls.append(key)

    throttle = Throttle(call, EVERY_S)
    throttle.ask("a")
    await until(lambda: calls == ["a"])
    for _ in range(100):
        throttle.ask("a")
    throttle.ask("b")
    await until(lambda: sorted(calls) == ["a", "a", "b"])
    await until(lambda: not throttle._tasks)
    assert sorted(calls) == ["a", "a", "b"]
    throttle.ask("a")
    await until(lambda: calls.count("a") == 3)
    await throttle.close()


async def test_an_ask_during_a_call_is_followed_by_another() -> None:
    begun, go_on, calls = asyncio.Event(), asyncio.Event(), []

    async def call(key: str) -> None:
        calls.append(key)
        begun.set()
        await go_on.wait()

    throttle = Throttle(call, EVERY_S)
    throttle.ask("a")
    await begun.wait()
    throttle.ask("a")
    go_on.set()
    await until(lambda: len(calls) == 2)
    await throttle.close()


async def test_an_unavailable_server_is_asked_again() -> None:
    calls: list[str] = []

    async def call(key: str) -> None:
        calls.append(key)
        if len(calls) == 1:
            raise UnavailableError("away")

    throttle = Throttle(call, EVERY_S)
    throttle.ask("a")
    await until(lambda: len(calls) == 2)
    await throttle.close()


async def test_it_ends_in_the_middle_of_a_call() -> None:
    async def call(key: str) -> None:
        await asyncio.sleep(DEADLINE_S * 10)

    throttle = Throttle(call, EVERY_S)
    throttle.ask("a")
    await asyncio.sleep(0)
    async with asyncio.timeout(DEADLINE_S):
        await throttle.close()
    assert not throttle._tasks


async def test_it_ends_before_its_first_call() -> None:
    async def call(key: str) -> None:
        raise AssertionError

    throttle = Throttle(call, EVERY_S)
    throttle.ask("a")
    async with asyncio.timeout(DEADLINE_S):
        await throttle.close()


@pytest.mark.parametrize("waits", [True, False])
async def test_places_are_seldom_asked_for(server_bench: Bench, waits: bool) -> None:
    """A burst of changes makes few calls, none where nobody waits, and the last place is right."""
    bench = server_bench
    assert bench.client is not None
    if waits:
        await asyncio.to_thread(lambda: bench.submit(*(f"a{n}" for n in range(40))))
    await asyncio.to_thread(lambda: bench.submit("g"))
    if not waits:
        await asyncio.to_thread(bench.claim)
        await asyncio.to_thread(lambda: bench.submit(*(f"a{n}" for n in range(40))))
    calls: list[str] = []
    positions: list[int] = []
    url = address_of(bench)
    async with reader_on(url, bench.prefix) as reader:
        ask = reader._queue.places

        async def places(model: str, ids: list[str]) -> object:
            calls.append(model)
            return await ask(model, ids)

        reader._queue.places = places  # type: ignore[method-assign, assignment]

        async def follow() -> None:
            async for item in reader.tail(MODEL, "g"):
                positions.append(item.ahead)  # type: ignore[union-attr]

        task = asyncio.create_task(follow())
        await until(lambda: bool(positions) if waits else bool(reader._marks))
        begun_ts = time.monotonic()
        for n in range(40):
            await asyncio.to_thread(lambda n=n: bench.queue.cancel(MODEL, f"a{n}", "user"))
        if waits:
            await until(lambda: positions[-1] == 0)
        else:
            newest = bench.client.xrevrange(f"{bench.prefix}{{{MODEL}}}:places", count=1)
            await until(lambda: newest[0][0].decode() in reader._marks.values())  # type: ignore[index]
        allowed = 2 + (time.monotonic() - begun_ts) / reader_module.PLACES_EVERY_S
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert len(calls) <= allowed if waits else not calls
