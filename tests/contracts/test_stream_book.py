"""Which streams an owner may take up again."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from inference.protocol.requests import GenerateRequest, ReplyInfo, TextPrompt
from inference.queues.connect import async_client
from inference.queues.stream_book import MAX_RECORD_BYTES, StreamBook
from inference.queues.stream_record import StreamRecord
from llamaweb.lib.errors import BusyError, InvalidError
from llamaweb.lib.ids import new_id
from tests.contracts.bench import FINISHED, MODEL, STARTED, Bench
from tests.contracts.valkey import Valkey

NOW_S = time.time() + 3600  # later than these tests run, for what Redis itself lets expire
MAX_ANSWERS = 4


class Clock:
    """Wall time that a test moves."""

    now = NOW_S

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["unix", "tcp"])
async def book(
    request: pytest.FixtureRequest, servers: dict[str, Valkey], clock: Clock
) -> AsyncIterator[StreamBook]:
    client = async_client(servers[request.param].url)
    yield StreamBook(client, f"{new_id()}:", MAX_ANSWERS, clock)
    await client.aclose()


def record(
    name: str, *, answers: int = 1, first: int = 0, until_s: float = 100.0, shown: str = "{}"
) -> StreamRecord:
    requests = tuple(
        GenerateRequest(
            f"gen-{name}-{first + number}",
            MODEL,
            "user:7",
            "user:7",
            TextPrompt(""),
            1,
            NOW_S,
            NOW_S + 10,
            reply=ReplyInfo("reply", 1, MODEL, "f", shown, name),
        )
        for number in range(answers)
    )
    return StreamRecord(name, "openai", MODEL, requests, (answers,), NOW_S + first, NOW_S + until_s)


async def test_found_until_it_is_dropped(book: StreamBook) -> None:
    one, two = record("a::é/😺", answers=2), record("b", first=1)
    assert await book.put("user:7", two) is None
    assert await book.put("user:7", one) is None
    assert await book.all("user:7") == [one, two]
    assert await book.all("user:8") == []
    assert await book.drop("user:7", one)
    assert not await book.drop("user:7", one)
    assert await book.all("user:7") == [two]


async def test_one_of_a_name(book: StreamBook) -> None:
    old, new = record("a", answers=MAX_ANSWERS), record("a", answers=MAX_ANSWERS, first=9)
    await book.put("user:7", old)
    assert await book.put("user:7", new) == old
    assert not await book.drop("user:7", old)
    assert await book.all("user:7") == [new]


async def test_an_owner_has_so_many_answers(book: StreamBook) -> None:
    await book.put("user:7", record("a", answers=3))
    await book.put("user:7", record("b"))
    with pytest.raises(BusyError) as caught:
        await book.put("user:7", record("c"))
    assert caught.value.reason == "owner_streams"
    await book.put("user:8", record("c"))
    with pytest.raises(InvalidError):
        await book.put("user:9", record("d", answers=MAX_ANSWERS + 1))
    with pytest.raises(InvalidError):
        await book.put("user:9", record("d", shown="x" * MAX_RECORD_BYTES))
    assert await book.all("user:9") == []


async def test_what_is_over_is_forgotten(book: StreamBook, clock: Clock) -> None:
    await book.put("user:7", record("a", answers=MAX_ANSWERS, until_s=5.0))
    clock.now += 6
    assert await book.all("user:7") == []
    assert await book.put("user:7", record("a", answers=MAX_ANSWERS, first=1)) is None


def test_the_queue_tells_when_it_ended(bench: Bench) -> None:
    claim = bench.start("g")
    running = bench.queue.status(MODEL, "g")
    assert running is not None
    assert running.ended_at is None
    bench.advance(5)
    bench.append(claim, 0, STARTED, FINISHED)
    ended = bench.queue.status(MODEL, "g")
    assert ended is not None
    assert ended.ended_at is not None
    assert abs(ended.ended_at - bench.now()) < 5
