"""The generations of one HTTP request, from submit to their ends.

A request lives as long as its client: leaving `Run` in any way cancels what hasn't ended, but what
is kept for a client that may come back. Nothing here knows a wire format.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from inference import api
from inference.edge.following import Follower
from inference.edge.instruments import RequestMeter
from inference.protocol.requests import EngineRequest, GenerateRequest
from llamaweb.lib.errors import LlamawebError

CANCEL_TIMEOUT_S = 5.0
READ_ON_GRACE_S = 60.0  # past the deadline; whatever ends generations has ended them by then

log = logging.getLogger(__name__)

# What outlives the view that was cancelled; the loop keeps only weak references to tasks.
_tasks: set[asyncio.Task[None]] = set()


class Run(Follower):
    """Submit on entering, cancel on leaving; in between `next` gives what comes.

    Requests with `keep` go on when their reader leaves, and are read on to be measured. `groups`:
    see `Follower`. Entering raises BusyError or UnavailableError, with nothing left behind.
    """

    def __init__(
        self, requests: Sequence[GenerateRequest], groups: Sequence[int] | None = None
    ) -> None:
        self.requests = tuple(requests)
        super().__init__(
            [(request.model, request.generation_id) for request in requests],
            groups=groups,
            meters=[RequestMeter(request.model, request.account) for request in requests],
        )
        self._submitted: list[GenerateRequest] = []
        self._is_closed = False

    async def __aenter__(self) -> Self:
        try:
            for index, request in enumerate(self.requests):
                self._submitted.append(request)
                await api.generation_submit(request)
                self.start(index)
                await asyncio.sleep(0)  # one that never began would keep its reader lease
        except BaseException:
            self.cancel()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading, and cancel what hasn't ended unless it is kept; from the event loop, any
        number of times."""
        if self._is_closed:
            return
        is_kept = all(request.keep for request in self.requests)
        if not is_kept or self.has_broken or self.is_over:
            self.cancel()
            return
        self._is_closed = True
        _go_on(asyncio.create_task(self._read_on(), name="generation-read-on"))

    def cancel(self) -> None:
        """Stop reading and cancel what hasn't ended, kept or not."""
        self._is_closed = True
        super().close()
        for index, meter in enumerate(self._meters):
            if meter is not None and not self._accounts[index].is_over:
                if index < len(self._pumps):
                    meter.abandon()
                else:
                    meter.refuse()
        for index, request in enumerate(self._submitted):
            if not self._accounts[index].is_over:
                cancel_later(request)

    async def _read_on(self) -> None:
        ends_at = max(request.deadline_at for request in self.requests)
        left_s = ends_at - time.time() + READ_ON_GRACE_S
        try:
            async with asyncio.timeout(left_s):
                while await self.next() is not None:
                    if self.has_broken:
                        self.cancel()
                        return
        except TimeoutError:
            log.warning("a generation without a client outlived its deadline")
        finally:
            super().close()


def cancel_later(request: EngineRequest) -> None:
    """Cancel from a task of its own: the caller may be in the middle of being cancelled."""
    _go_on(asyncio.create_task(_cancel(request), name="generation-cancel"))


def _go_on(task: asyncio.Task[None]) -> None:
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _cancel(request: EngineRequest) -> None:
    try:
        async with asyncio.timeout(CANCEL_TIMEOUT_S):
            await api.generation_cancel(request.model, request.generation_id, "reader_gone")
    except (LlamawebError, TimeoutError):
        # Its reader lease isn't renewed any more, so it ends within seconds all the same.
        log.warning("a generation without a client could not be cancelled at once")
