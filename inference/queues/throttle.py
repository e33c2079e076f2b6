"""Calls that news ask for, but no more often than anybody needs them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from llamaweb.lib.errors import UnavailableError

CANCEL_AGAIN_S: Final = 0.1

log = logging.getLogger(__name__)


class Throttle:
    """Calls `call(key)` after each `ask(key)`: the first at once, later ones joined into one each
    `every_s` seconds. The last ask is always followed by a call. A call that finds the server
    unavailable is made again.
    """

    def __init__(self, call: Callable[[str], Awaitable[None]], every_s: float) -> None:
        self._call = call
        self._every_s = every_s
        self._asked: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def ask(self, key: str) -> None:
        """Something changed."""
        self._asked.add(key)
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._run(key), name="throttle")

    async def close(self) -> None:
        """Stop all calls."""
        self._asked.clear()
        # The client library loses a cancellation now and then (seen with 7.4): say it again.
        while tasks := {task for task in self._tasks.values() if not task.done()}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=CANCEL_AGAIN_S)
        self._tasks.clear()

    async def _run(self, key: str) -> None:
        try:
            while key in self._asked:
                self._asked.discard(key)
                try:
                    await self._call(key)
                except UnavailableError:
                    self._asked.add(key)
                except Exception:
                    log.exception("A call that was asked for failed.")
                await asyncio.sleep(self._every_s)
        finally:
            self._tasks.pop(key, None)
