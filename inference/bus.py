"""The queue as this installation's settings name it: one client a process, one reader a loop."""

from __future__ import annotations

import asyncio
import functools
import weakref
from dataclasses import dataclass

import redis.asyncio
from django.conf import settings

from inference.queues.async_queue import AsyncRedisQueue
from inference.queues.connect import async_client, sync_client
from inference.queues.contract import Queue, QueueConfig
from inference.queues.reader import StreamReader
from inference.queues.reader_lease import ReaderLease
from inference.queues.redis_queue import RedisQueue
from inference.queues.stream_book import StreamBook
from llamaweb.lib.ids import new_id


def queue_config() -> QueueConfig:
    """Bounds from the settings."""
    return QueueConfig(
        max_queued=settings.MAX_QUEUED,
        max_queued_per_owner=settings.MAX_QUEUED_PER_OWNER,
        ended_keep_s=float(settings.STREAM_KEEP_S),
    )


@functools.cache
def sync_queue() -> Queue:
    """The queue for services, jobs and the supervisor; safe from several threads."""
    return RedisQueue(sync_client(settings.REDIS_URL), settings.REDIS_PREFIX, queue_config())


@dataclass(frozen=True, slots=True)
class Bus:
    """What the views and consumers of one event loop share."""

    queue: AsyncRedisQueue
    reader: StreamReader
    lease: ReaderLease
    streams: StreamBook
    client: redis.asyncio.Redis


_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Bus] = weakref.WeakKeyDictionary()


async def loop_bus_close() -> None:
    """Stop the running loop's reader and leases; for commands and tests that end their loop."""
    bus = _by_loop.pop(asyncio.get_running_loop(), None)
    if bus is not None:
        await bus.reader.close()
        await bus.lease.close()
        await bus.client.aclose()


def loop_bus() -> Bus:
    """The running event loop's bus: an asynchronous client belongs to the loop that made it."""
    loop = asyncio.get_running_loop()
    bus = _by_loop.get(loop)
    if bus is None:
        client = async_client(settings.REDIS_URL)
        queue = AsyncRedisQueue(client, settings.REDIS_PREFIX, queue_config())
        lease = ReaderLease(queue, new_id("reader-"))
        streams = StreamBook(client, settings.REDIS_PREFIX, settings.MAX_RESUMABLE_PER_OWNER)
        bus = Bus(queue, StreamReader(client, queue), lease, streams, client)
        _by_loop[loop] = bus
    return bus
