"""All readers of one web process on one blocking read.

`StreamReader.tail` is a reader: it reads from Redis at its cursor until it has caught up, then
takes what the process's one XREAD brings. Whenever that doesn't join on (buffer full, entries
folded, another incarnation, a broken connection) it reads from Redis again. So a slow reader
holds up nobody, and no reader sees a hole.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any, Final

import redis.asyncio

from inference.protocol.codec import DecodeError
from inference.queues.answers import entry_of, text
from inference.queues.async_queue import AsyncRedisQueue
from inference.queues.connect import LONGEST_BLOCK_S, reachable
from inference.queues.contract import START, Cursor, Position, Read
from inference.queues.keys import model_keys, wake_key
from inference.queues.subscription import Subscription, has_end
from inference.queues.throttle import Throttle
from llamaweb.lib.errors import UnavailableError
from llamaweb.lib.ids import new_id

READ_LIMIT: Final = 512  # entries of one generation at once
IDLE_CHECK_S: Final = 5.0  # a silent generation is looked at that often
GONE_PATIENCE_S: Final = 30.0  # a lost generation is given back by its engine, or by a sweep
GONE_RETRY_S: Final = 0.2
SERVER_PATIENCE_S: Final = 30.0  # how long a reader outlives its server
BACKOFF_S: Final = 0.05
BACKOFF_CAP_S: Final = 1.0
WAKE_KEPT_S: Final = 60
CANCEL_AGAIN_S: Final = 0.1
PLACES_EVERY_S: Final = 0.5  # places of one model are asked for that often at most

log = logging.getLogger(__name__)


class _Topic:
    """A followed generation: its readers, and how far the blocking read got (None: not yet)."""

    def __init__(self) -> None:
        self.readers: set[Subscription] = set()
        self.at: Cursor | None = None


class StreamReader:
    """The readers of one process (one event loop). `close` it at the end.

    `queue` and `client` may share a connection pool; both come from `connect.async_client`.
    """

    def __init__(self, client: redis.asyncio.Redis, queue: AsyncRedisQueue) -> None:
        self._client = client
        self._queue = queue
        self._topics: dict[str, _Topic] = {}  # by stream key
        self._marks: dict[str, str] = {}  # places stream key -> last id seen
        self._models: dict[str, str] = {}  # places stream key -> model
        self._wake_key = wake_key(queue.prefix, new_id())
        self._wake_at = "0-0"
        self._followed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._places = Throttle(self._deliver_places, PLACES_EVERY_S)

    async def close(self) -> None:
        """Stop following; readers that are left find nothing new."""
        task, self._task = self._task, None
        # The client library loses a cancellation now and then (seen with 7.4): say it again.
        while task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_AGAIN_S)
        await self._places.close()

    @property
    def num_readers(self) -> int:
        """How many readers follow something now."""
        return sum(len(topic.readers) for topic in self._topics.values())

    async def tail(
        self, model: str, generation_id: str, cursor: Cursor = START, *, expected: bool = False
    ) -> AsyncGenerator[Read | Position, None]:
        """Yield what comes after `cursor` until the terminal event, and places while queued.

        Ends after a Read that holds the terminal event or is `gone`, or at once if `cursor` is
        at the end of an ended generation. `expected`: the caller knows that it hasn't ended (the
        database says so), so wait some seconds for it to appear before saying `gone`. Close the
        iterator (`contextlib.aclosing`) to leave early.

        Raises:
            UnavailableError: Redis is away for longer than a reader waits.
        """
        subscription = Subscription(model, generation_id, cursor)
        key = model_keys(self._queue.prefix, model).stream(generation_id)
        topic = self._topics.setdefault(key, _Topic())
        topic.readers.add(subscription)
        self._start()
        try:
            async for item in self._follow(subscription, topic, expected):
                yield item
        finally:
            topic.readers.discard(subscription)
            if not topic.readers and self._topics.get(key) is topic:
                del self._topics[key]

    async def _follow(
        self, subscription: Subscription, topic: _Topic, known: bool
    ) -> AsyncGenerator[Read | Position, None]:
        gone_till: float | None = None
        while True:
            subscription.heard()
            if subscription.stale:
                read = await self._read(subscription)
                if read.gone:
                    gone_till = gone_till or time.monotonic() + GONE_PATIENCE_S * known
                    if time.monotonic() < gone_till:
                        subscription.stale = True
                        await asyncio.sleep(GONE_RETRY_S)
                        continue
                    yield read
                    return
                known, gone_till = True, None
                await self._join(subscription, topic)
                if read.entries or read.reset is not None:
                    yield read
                    if has_end(read):
                        return
                elif await self._is_over(subscription):
                    return
            elif (arrived := subscription.take()) is not None:
                yield arrived
                if has_end(arrived):
                    return
            elif (position := subscription.take_position()) is not None:
                yield position
            elif not subscription.stale and not await subscription.wait(IDLE_CHECK_S):
                subscription.stale = True

    async def _read(self, subscription: Subscription) -> Read:
        """Read at the cursor, through a restart of the server if need be."""
        give_up_ts = time.monotonic() + SERVER_PATIENCE_S
        backoff_s = BACKOFF_S
        while True:
            subscription.begin_read()
            try:
                read = await self._queue.read(
                    subscription.model,
                    subscription.generation_id,
                    subscription.cursor,
                    limit=READ_LIMIT,
                )
                break
            except UnavailableError:
                if time.monotonic() > give_up_ts:
                    raise
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, BACKOFF_CAP_S)
        subscription.cursor = read.cursor
        if len(read.entries) >= READ_LIMIT:
            subscription.stale = True
        return read

    async def _join(self, subscription: Subscription, topic: _Topic) -> None:
        """Let the blocking read follow the generation from here, unless it does already."""
        if topic.at is None:
            topic.at = subscription.cursor
            await self._wake()

    async def _is_over(self, subscription: Subscription) -> bool:
        """Nothing came: does it wait, run, or was the cursor at its end?"""
        await self._watch_places(subscription.model)
        try:
            status = await self._queue.status(subscription.model, subscription.generation_id)
        except UnavailableError:
            subscription.stale = True
            return False
        if status is None:
            subscription.stale = True
            return False
        subscription.place(status.position)
        return status.state == "ended" and status.last_seq == subscription.cursor.seq

    # --- the blocking read

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="stream-reader")

    async def _wake(self) -> None:
        """Interrupt the blocking read, so that it takes up what is new."""
        self._followed.set()
        with contextlib.suppress(UnavailableError):
            async with reachable(), self._client.pipeline(transaction=False) as pipe:
                pipe.xadd(self._wake_key, {"k": "1"}, maxlen=1, approximate=False)
                pipe.expire(self._wake_key, WAKE_KEPT_S)
                await pipe.execute()

    async def _watch_places(self, model: str) -> None:
        key = model_keys(self._queue.prefix, model).places
        if key in self._marks:
            return
        newest: Any = []
        with contextlib.suppress(UnavailableError):
            async with reachable():
                newest = await self._client.xrevrange(key, count=1)
        self._models[key] = model
        self._marks.setdefault(key, text(newest[0][0]) if newest else "0-0")
        await self._wake()

    async def _run(self) -> None:
        backoff_s = BACKOFF_S
        while True:
            if not self._topics:
                self._followed.clear()
                self._marks.clear()
                self._models.clear()
            await self._followed.wait()
            try:
                async with reachable():
                    found: Any = await self._client.xread(
                        self._streams(), count=READ_LIMIT, block=int(LONGEST_BLOCK_S * 1000)
                    )
                self._deliver(found.items() if isinstance(found, dict) else found)
                backoff_s = BACKOFF_S
                continue
            except UnavailableError:
                log.warning("The queue server can't be reached; trying again.")
            except Exception:
                # One task serves every reader of the process: it must not end.
                log.exception("Reading streams failed; trying again.")
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, BACKOFF_CAP_S)
            for topic in self._topics.values():
                for subscription in topic.readers:
                    subscription.reread()

    def _streams(self) -> dict[Any, Any]:
        streams = {self._wake_key: self._wake_at, **self._marks}
        for key, topic in self._topics.items():
            if topic.at is not None:
                streams[key] = f"{topic.at.incarnation}-{max(topic.at.seq, 0)}"
                if topic.at.seq < 0:  # before `1-0` comes the last id of incarnation 0
                    streams[key] = f"{topic.at.incarnation - 1}-{2**64 - 1}"
        return streams

    def _deliver(self, found: Any) -> None:
        for raw_key, entries in found:
            key = text(raw_key)
            if key == self._wake_key:
                self._wake_at = text(entries[-1][0])
            elif key in self._marks:
                self._marks[key] = text(entries[-1][0])
                model = self._models[key]
                if self._waiting(model):
                    self._places.ask(model)
            elif (topic := self._topics.get(key)) is not None:
                self._deliver_entries(topic, entries)

    def _deliver_entries(self, topic: _Topic, entries: Any) -> None:
        for entry_id, fields in entries:
            incarnation, seq = text(entry_id).split("-")
            topic.at = Cursor(int(incarnation), int(seq))
            try:
                entry = entry_of(entry_id, fields)[1]
            except DecodeError:  # each reader meets it in its own read, and fails alone
                for subscription in topic.readers:
                    subscription.reread()
                continue
            for subscription in topic.readers:
                subscription.offer(int(incarnation), entry)

    def _waiting(self, model: str) -> list[Subscription]:
        return [
            subscription
            for topic in self._topics.values()
            for subscription in topic.readers
            if subscription.queued and subscription.model == model
        ]

    async def _deliver_places(self, model: str) -> None:
        waiting = self._waiting(model)
        if not waiting:
            return
        ids = [subscription.generation_id for subscription in waiting]
        for subscription, position in zip(
            waiting, await self._queue.places(model, ids), strict=True
        ):
            subscription.place(position)
