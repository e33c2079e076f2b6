"""Readers of a web process: no holes, no repeats, nobody held up by another."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable

import pytest

from inference.protocol.events import Cancelled, Entry, Event, Failed, Snapshot
from inference.protocol.fold import EMPTY, fold, text_of
from inference.queues import reader as reader_module
from inference.queues.async_queue import AsyncRedisQueue
from inference.queues.connect import async_client, sync_client
from inference.queues.contract import START, Append, Claim, Cursor, Position, Read
from inference.queues.reader import StreamReader
from inference.queues.reader_lease import ReaderLease
from inference.queues.subscription import BUFFER_ENTRIES
from tests.contracts.bench import (
    FINISHED,
    MODEL,
    STARTED,
    Bench,
    address_of,
    delta,
    redis_bench,
)
from tests.contracts.conftest import reader_on
from tests.contracts.valkey import Valkey
from tests.until import until

DEADLINE_S = 20.0


@dataclasses.dataclass
class Seen:
    """What one reader got, folded as a client would."""

    log: Snapshot = EMPTY
    reads: list[Read] = dataclasses.field(default_factory=list)
    positions: list[int] = dataclasses.field(default_factory=list)
    resets: int = 0
    gone: bool = False

    def take(self, item: Read | Position) -> None:
        if isinstance(item, Position):
            self.positions.append(item.ahead)
            return
        self.reads.append(item)
        self.gone = self.gone or item.gone
        if item.reset is not None:
            self.resets += 1
            self.log = item.reset
        if item.entries:
            assert item.entries[0].seq == self.log.seq + 1, "a hole or a repeat"
        self.log = fold(self.log, item.entries)

    @property
    def text(self) -> str:
        return text_of(self.log)


async def follow(
    reader: StreamReader, seen: Seen, cursor: Cursor = START, pause_s: float = 0.0, **options: bool
) -> Seen:
    async with asyncio.timeout(DEADLINE_S):
        async for item in reader.tail(MODEL, "g", cursor, **options):
            seen.take(item)
            await asyncio.sleep(pause_s)
    return seen


async def do(function: Callable[[], object]) -> None:
    await asyncio.to_thread(function)


@pytest.fixture(autouse=True)
def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be left to the check of silent generations."""
    monkeypatch.setattr(reader_module, "IDLE_CHECK_S", 10 * DEADLINE_S)


@pytest.fixture
async def reader(server_bench: Bench) -> AsyncIterator[StreamReader]:
    async with reader_on(address_of(server_bench), server_bench.prefix) as reader:
        yield reader


async def write(bench: Bench, claim: Claim, texts: list[str], engine: str = "e1") -> None:
    """One append a text, from another thread, then the end."""

    def run() -> None:
        seq = 1
        bench.append(claim, 0, STARTED, engine=engine)
        for text in texts:
            assert bench.append(claim, seq, delta(text), engine=engine) in ("ok", "full")
            seq += 1
        assert bench.append(claim, seq, FINISHED, engine=engine) == "ok"

    await asyncio.to_thread(run)


TEXTS = [f"{number} " for number in range(3 * BUFFER_ENTRIES)]
WHOLE = "".join(TEXTS)


async def test_all_readers_see_all_of_it(server_bench: Bench, reader: StreamReader) -> None:
    claim = server_bench.start()
    seen = [Seen(), Seen(), Seen()]
    tasks = [
        asyncio.create_task(follow(reader, seen[0])),
        asyncio.create_task(follow(reader, seen[1])),
        asyncio.create_task(follow(reader, seen[2], pause_s=0.02)),
    ]
    await write(server_bench, claim, TEXTS)
    late = await follow(reader, Seen())
    await asyncio.gather(*tasks)
    for one in (*seen, late):
        assert one.text == WHOLE
        assert one.log.terminal == FINISHED
        assert one.resets == 0
    assert reader.num_readers == 0


async def test_a_reader_that_stands_still_holds_up_nobody(
    server_bench: Bench, reader: StreamReader
) -> None:
    claim = server_bench.start()
    slow = Seen()
    async with contextlib.aclosing(reader.tail(MODEL, "g")) as stuck:  # type: ignore[type-var]
        first = asyncio.ensure_future(anext(stuck))
        await until(lambda: reader.num_readers == 1)
        fast = asyncio.create_task(follow(reader, Seen()))
        await write(server_bench, claim, TEXTS)
        assert (await fast).text == WHOLE
        slow.take(await first)
        async for item in stuck:
            slow.take(item)
    assert slow.text == WHOLE


async def test_a_cursor_in_the_middle(server_bench: Bench, reader: StreamReader) -> None:
    claim = server_bench.start()
    await write(server_bench, claim, ["a", "b", "c"])
    items = [item async for item in reader.tail(MODEL, "g", Cursor(1, 1))]
    assert [entry.seq for item in items for entry in item.entries] == [2, 3, 4]  # type: ignore[union-attr]


async def test_a_cursor_at_the_end_ends_at_once(server_bench: Bench, reader: StreamReader) -> None:
    claim = server_bench.start()
    await write(server_bench, claim, ["a"])
    async with asyncio.timeout(DEADLINE_S):
        assert [item async for item in reader.tail(MODEL, "g", Cursor(1, 2))] == []


async def test_unknown_is_gone(reader: StreamReader) -> None:
    assert (await follow(reader, Seen())).gone


async def test_expected_may_come_later(server_bench: Bench, reader: StreamReader) -> None:
    task = asyncio.create_task(follow(reader, Seen(), expected=True))
    await until(lambda: reader.num_readers == 1)
    await asyncio.sleep(0)
    await do(lambda: server_bench.start())
    await do(lambda: server_bench.queue.cancel(MODEL, "g", "user"))
    await do(lambda: server_bench.queue.engine_gone(MODEL, "e1"))
    assert (await task).log.terminal == Cancelled("user")


async def test_places_are_told_while_queued(server_bench: Bench, reader: StreamReader) -> None:
    bench = server_bench
    await do(lambda: bench.submit("first", "second"))
    await do(lambda: bench.submit("g", owner="bob", lane="background"))
    seen = Seen()
    task = asyncio.create_task(follow(reader, seen))
    await until(lambda: seen.positions == [2])
    await do(lambda: bench.claim(1))
    await until(lambda: seen.positions == [2, 1])
    await do(lambda: bench.submit("third", owner="carol"))
    await until(lambda: seen.positions == [2, 1, 2])
    await do(lambda: bench.queue.cancel(MODEL, "second", "user"))
    await until(lambda: seen.positions == [2, 1, 2, 1])
    await do(lambda: bench.claim(1))
    await until(lambda: seen.positions == [2, 1, 2, 1, 0])
    claim = (await asyncio.to_thread(bench.claim, 1))[0]
    await write(bench, claim, ["x"])
    assert (await task).text == "x"
    assert seen.positions == [2, 1, 2, 1, 0]


async def test_an_end_while_queued(server_bench: Bench, reader: StreamReader) -> None:
    await do(lambda: server_bench.submit("g"))
    seen = Seen()
    task = asyncio.create_task(follow(reader, seen))
    await until(lambda: seen.positions == [0])
    terminal = Failed("model_unavailable", "no engine")
    await do(lambda: server_bench.queue.fail_queued(MODEL, terminal))
    assert (await task).log.terminal == terminal


async def test_folding_under_readers(server_bench: Bench, reader: StreamReader) -> None:
    bench = server_bench
    claim = bench.start()

    def run() -> None:
        log = EMPTY
        for seq, text in enumerate(TEXTS):
            entry = Entry(seq, delta(text))
            outcome = bench.append(claim, seq, entry.event)
            log = fold(log, [entry])
            if outcome == "full":
                assert bench.queue.fold(MODEL, "e1", "g", claim.epoch, log)
        assert bench.append(claim, len(TEXTS), FINISHED) == "ok"

    quick = asyncio.create_task(follow(reader, Seen()))
    slow = asyncio.create_task(follow(reader, Seen(), pause_s=0.05))
    await asyncio.to_thread(run)
    late = await follow(reader, Seen())
    assert (await quick).text == (await slow).text == late.text == WHOLE
    assert late.resets == 1


async def test_many_generations_on_one_read(server_bench: Bench, reader: StreamReader) -> None:
    bench = server_bench
    ids = [f"g{number}" for number in range(20)]
    bench.submit(*ids)
    claims = bench.claim(20)

    async def text_of_one(generation_id: str) -> str:
        seen = Seen()
        async for item in reader.tail(MODEL, generation_id):
            seen.take(item)
        return seen.text

    tasks = [asyncio.create_task(text_of_one(generation_id)) for generation_id in ids]

    def run() -> None:
        for seq in range(30):
            event: Event = FINISHED if seq == 29 else delta("x")
            batch = [
                Append(c.request.generation_id, c.epoch, c.incarnation, seq, (event,))
                for c in claims
            ]
            assert set(bench.queue.append(MODEL, "e1", batch)) == {"ok"}

    await asyncio.to_thread(run)
    async with asyncio.timeout(DEADLINE_S):
        assert await asyncio.gather(*tasks) == ["x" * 29] * 20


async def test_leaving_early(server_bench: Bench, reader: StreamReader) -> None:
    server_bench.start()
    task = asyncio.create_task(follow(reader, Seen()))
    await until(lambda: reader.num_readers == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reader.num_readers == 0


async def test_leaving_at_any_moment(server_bench: Bench) -> None:
    """No step of a read may lose a cancellation: it is a client's disconnect."""
    server_bench.start()
    for steps in range(60):
        async with reader_on(address_of(server_bench), server_bench.prefix) as reader:
            task = asyncio.create_task(follow(reader, Seen()))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=DEADLINE_S / 2)
            assert done, f"the cancellation after {steps} steps was lost"
            assert task.cancelled()


async def test_a_death_in_the_middle(server_bench: Bench, reader: StreamReader) -> None:
    bench = server_bench
    claim = bench.start()
    seen = Seen()
    task = asyncio.create_task(follow(reader, seen))
    await do(lambda: bench.append(claim, 0, STARTED, delta("a")))
    await until(lambda: seen.text == "a")
    await do(lambda: bench.queue.engine_gone(MODEL, "e1"))
    (again,) = await asyncio.to_thread(bench.claim, 1, "e2")
    await do(lambda: bench.append(again, 2, delta("b"), FINISHED, engine="e2"))
    assert (await task).text == "ab"
    assert seen.resets == 0


async def test_a_restart_that_loses_all_under_a_living_engine(own_server: Valkey) -> None:
    with contextlib.closing(sync_client(own_server.url)) as client:
        bench = redis_bench(client)
        claim = bench.start()
        async with reader_on(own_server.url, bench.prefix) as reader:
            seen = Seen()
            task = asyncio.create_task(follow(reader, seen))
            await do(lambda: bench.append(claim, 0, STARTED, delta("a")))
            await until(lambda: seen.text == "a")
            await do(own_server.restart)
            log = seen.log
            await do(lambda: bench.queue.restore("e1", claim, log))
            await do(lambda: bench.append(claim, 2, delta("b")))
            await until(lambda: seen.text == "ab")
            await do(lambda: bench.append(claim, 3, FINISHED))
            assert (await task).resets == 0
            assert seen.log.terminal == FINISHED


async def test_a_restart_that_takes_the_engine_along(durable_server: Valkey) -> None:
    with contextlib.closing(sync_client(durable_server.url)) as client:
        bench = redis_bench(client)
        claim = bench.start()
        async with reader_on(durable_server.url, bench.prefix) as reader:
            seen = Seen()
            task = asyncio.create_task(follow(reader, seen))
            await do(lambda: bench.append(claim, 0, STARTED, delta("a")))
            await until(lambda: seen.text == "a")
            await do(lambda: client.execute_command("WAITAOF", 1, 0, 5000))
            await do(durable_server.restart)
            await do(lambda: bench.queue.engine_gone(MODEL, "e1"))
            (again,) = await asyncio.to_thread(bench.claim, 1, "e2")
            await do(lambda: bench.append(again, 2, delta("b"), FINISHED, engine="e2"))
            assert (await task).text == "ab"
            assert seen.resets == 1


async def test_reader_leases_are_renewed_until_dropped(server_bench: Bench) -> None:
    short = dataclasses.replace(server_bench.config, reader_lease_s=0.6, reader_renew_s=0.1)
    assert server_bench.client is not None
    bench = redis_bench(server_bench.client, short)
    client = async_client(address_of(bench))
    queue = AsyncRedisQueue(client, bench.prefix, short)
    lease = ReaderLease(queue, "web1")
    try:
        position = await queue.submit(bench.request("g", keep=False), reader_id="web1")
        assert position == Position(0, 1)
        lease.hold(MODEL, "g")
        await asyncio.sleep(1.0)
        assert (await asyncio.to_thread(bench.queue.reap, MODEL)).cancelled == ()
        lease.drop(MODEL, "g")
        await until(lambda: bench.queue.reap(MODEL).cancelled == ("g",))
    finally:
        await lease.close()
        await client.aclose()
