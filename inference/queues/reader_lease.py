"""Keeps the requests that end without a reader alive while this process reads them."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict

from inference.queues.async_queue import AsyncRedisQueue
from llamaweb.lib.errors import UnavailableError

RETRY_S = 0.2  # must fit several times into reader_lease_s - reader_renew_s

log = logging.getLogger(__name__)


class ReaderLease:
    """Renews all held generations from one task, every `reader_renew_s`.

    Submit with the same `reader_id`: that is the first lease. Dropping one only stops the
    renewing; cancel it with "reader_gone" to end it at once.
    """

    def __init__(self, queue: AsyncRedisQueue, reader_id: str) -> None:
        self.reader_id = reader_id
        self._queue = queue
        self._held: dict[str, set[str]] = defaultdict(set)  # model -> generation ids
        self._task: asyncio.Task[None] | None = None

    def hold(self, model: str, generation_id: str) -> None:
        """Renew this one until it is dropped."""
        self._held[model].add(generation_id)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="reader-lease")

    def drop(self, model: str, generation_id: str) -> None:
        """Don't renew it any more."""
        self._held[model].discard(generation_id)
        if not self._held[model]:
            del self._held[model]

    async def close(self) -> None:
        """Stop renewing everything."""
        self._held.clear()
        task, self._task = self._task, None
        while task is not None and not task.done():  # see StreamReader.close
            task.cancel()
            await asyncio.wait({task}, timeout=RETRY_S)

    async def renew(self) -> None:
        """Renew all now, one call a model.

        Those that Redis doesn't know stay held: a server that lost them gets them back.
        """
        for model, held in list(self._held.items()):
            await self._queue.reader_renew(model, self.reader_id, sorted(held))

    async def _run(self) -> None:
        wait_s = 0.0  # the first at once: the lease of the submit may be old
        while True:
            await asyncio.sleep(wait_s)
            wait_s = self._queue.config.reader_renew_s
            try:
                await self.renew()
            except UnavailableError:
                wait_s = RETRY_S
            except Exception:
                log.exception("Renewing reader leases failed; trying again.")
                wait_s = RETRY_S
