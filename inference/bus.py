"""The queue as this installation's settings name it: one client a process, one reader a loop."""

from __future__ import annotations

import asyncio
import functools
import weakref

from django.conf import settings

from inference.queues.connect import connect_async_queue, connect_queue
from inference.queues.contract import Queue, QueueConfig
from inference.queues.reader import StreamReader
from inference.queues.redis_queue import AsyncRedisQueue


def queue_config() -> QueueConfig:
    """Bounds from the settings."""
    return QueueConfig(
        max_queued=settings.MAX_QUEUED,
        max_queued_per_owner=settings.MAX_QUEUED_PER_OWNER,
    )


@functools.cache
def sync_queue() -> Queue:
    """The queue for services, jobs and the supervisor; safe from several threads."""
    return connect_queue(settings.REDIS_URL, settings.REDIS_PREFIX, queue_config())


class _PerLoop:
    """An asynchronous client belongs to the event loop that made it."""

    def __init__(self) -> None:
        self._by_loop: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[AsyncRedisQueue, StreamReader]
        ] = weakref.WeakKeyDictionary()

    def get(self) -> tuple[AsyncRedisQueue, StreamReader]:
        loop = asyncio.get_running_loop()
        found = self._by_loop.get(loop)
        if found is None:
            queue = connect_async_queue(settings.REDIS_URL, settings.REDIS_PREFIX, queue_config())
            found = self._by_loop[loop] = (queue, StreamReader(queue))
        return found


_per_loop = _PerLoop()


def async_queue() -> AsyncRedisQueue:
    """The queue for views and consumers of the running loop."""
    return _per_loop.get()[0]


def stream_reader() -> StreamReader:
    """The running loop's one multiplexed reader."""
    return _per_loop.get()[1]
