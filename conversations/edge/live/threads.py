"""The database from live connections: a few threads of their own.

Outside of a request all asynchronous code would share one thread, and one act that waits for a
lock would hold up every socket of the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from django.db import connections

from conversations.edge.live.bounds import READ_S
from llamaweb.accounts.database import in_database
from llamaweb.lib.errors import DeadlineError

P = ParamSpec("P")
R = TypeVar("R")

NUM_THREADS: Final = 4
CLOSE_S: Final = 10.0


class LiveThreads:
    """Threads for the live connections of one event loop; `close` gives back what they hold."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="live-database")
        self._is_closed = False

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `function` in a thread, with a deadline of READ_S."""
        return await self.run_within(READ_S, function, *args, **kwargs)

    async def run_within(
        self, timeout_s: float, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call `function` in a thread; it goes on there when its time is up.

        Raises:
            DeadlineError: the time is up.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await in_database(function, executor=self._pool)(*args, **kwargs)
        except TimeoutError:
            raise DeadlineError(f"the database didn't answer within {timeout_s:g} s") from None

    def close(self) -> None:
        """Let each thread close its connections, and end; doesn't wait. Again: nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        barrier = threading.Barrier(NUM_THREADS)
        for _ in range(NUM_THREADS):
            self._pool.submit(_close_connections, barrier)
        self._pool.shutdown(wait=False)


def _close_connections(barrier: threading.Barrier) -> None:
    connections.close_all()
    try:
        barrier.wait(CLOSE_S)  # so that each thread takes one of these calls
    except threading.BrokenBarrierError:
        return
