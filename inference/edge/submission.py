"""The generations of one HTTP request, from submit to their ends.

A request of this kind lives as long as its client: leaving `Run` in any way cancels what hasn't
ended. Nothing here knows a wire format.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypeAlias

from inference import api
from inference.edge.instruments import RequestMeter
from inference.edge.steps import LOST_LOG, Broken, Step, Steps
from inference.protocol.events import Entry
from inference.protocol.requests import EngineRequest, GenerateRequest
from inference.queues.contract import Position, Read
from llamaweb.lib.errors import LlamawebError, UnavailableError

CANCEL_TIMEOUT_S = 5.0
MAX_WAITING_READS = 64  # per generation, between its log and a slow client

log = logging.getLogger(__name__)

# Cancels outlive the view that was cancelled; the loop keeps only weak references to tasks.
_cancels: set[asyncio.Task[None]] = set()


class Batch:
    """Steps of the generation `index` that came from the log entry `seq`."""

    __slots__ = ("index", "seq", "steps")

    def __init__(self, index: int, seq: int, steps: list[Step]) -> None:
        self.index = index
        self.seq = seq
        self.steps = steps


_Item: TypeAlias = "tuple[int, Read | LlamawebError]"


class Run:
    """Submit on entering, cancel on leaving; in between `next` gives what comes.

    Entering raises BusyError or UnavailableError, with nothing left behind.
    """

    def __init__(self, requests: Sequence[GenerateRequest]) -> None:
        self.requests = tuple(requests)
        self._meters = [RequestMeter(request.model, request.account) for request in requests]
        self._steps = [Steps() for _ in requests]
        self._items: asyncio.Queue[_Item] = asyncio.Queue(MAX_WAITING_READS * len(requests))
        self._ready: list[Batch] = []
        self._pumps: list[asyncio.Task[None]] = []
        self._submitted: list[GenerateRequest] = []
        self._is_closed = False

    @property
    def is_over(self) -> bool:
        """Whether every generation has ended and all its steps were given out."""
        return not self._ready and all(steps.is_over for steps in self._steps)

    async def __aenter__(self) -> Self:
        try:
            for index, request in enumerate(self.requests):
                self._submitted.append(request)
                await api.generation_submit(request)
                pump = asyncio.create_task(self._pump(index), name="generation-reader")
                self._pumps.append(pump)
                await asyncio.sleep(0)  # one that never began would keep its reader lease
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def first(self, timeout_s: float) -> Batch | None:
        """The first steps of any generation, or None after `timeout_s`; `next` gives them again."""
        batch = await self.next(timeout_s)
        if batch is not None:
            self._ready.insert(0, batch)
        return batch

    async def next(self, timeout_s: float | None = None) -> Batch | None:
        """The next steps, or None: nothing came within `timeout_s`, or all is over."""
        ends_ts = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        while not self._ready:
            if self.is_over:
                return None
            try:
                async with asyncio.timeout_at(ends_ts):
                    item = await self._items.get()
            except TimeoutError:
                return None
            self._fold(*item)
        return self._ready.pop(0)

    def close(self) -> None:
        """Stop reading and cancel what hasn't ended; from the event loop, any number of times."""
        if self._is_closed:
            return
        self._is_closed = True
        for pump in self._pumps:
            pump.cancel()
        for index, meter in enumerate(self._meters):
            if not self._steps[index].is_over:
                if index < len(self._pumps):
                    meter.abandon()
                else:
                    meter.refuse()
        for index, request in enumerate(self._submitted):
            if not self._steps[index].is_over:
                cancel_later(request)

    def _fold(self, index: int, item: Read | LlamawebError) -> None:
        if isinstance(item, LlamawebError):
            log.warning("a reader lost its generation: %s", type(item).__name__)
        if isinstance(item, LlamawebError) or item.gone:
            self._steps[index].is_over = True
            self._ready.append(Batch(index, -1, [Broken(LOST_LOG)]))
            return
        if item.reset is not None:
            steps = self._steps[index].reset(item.reset)
            if item.reset.terminal is not None:
                self._meters[index].record(item.reset.terminal)
            if steps:
                self._ready.append(Batch(index, item.reset.seq, steps))
        for entry in item.entries:
            self._fold_entry(index, entry)

    def _fold_entry(self, index: int, entry: Entry) -> None:
        self._meters[index].record(entry.event)
        steps = self._steps[index].feed(entry)
        if steps:
            self._ready.append(Batch(index, entry.seq, steps))

    async def _pump(self, index: int) -> None:
        """Carry one generation's log into the common queue; waits while the client is slow."""
        request = self.requests[index]
        events = api.generation_events(request.model, request.generation_id)
        try:
            async with contextlib.aclosing(events):
                async for item in events:
                    if not isinstance(item, Position):
                        await self._items.put((index, item))
        except LlamawebError as error:
            await self._items.put((index, error))
        except Exception:
            log.exception("reading a generation failed")
            await self._items.put((index, UnavailableError("the answer can't be read")))


def cancel_later(request: EngineRequest) -> None:
    """Cancel from a task of its own: the caller may be in the middle of being cancelled."""
    task = asyncio.create_task(_cancel(request), name="generation-cancel")
    _cancels.add(task)
    task.add_done_callback(_cancels.discard)


async def _cancel(request: EngineRequest) -> None:
    try:
        async with asyncio.timeout(CANCEL_TIMEOUT_S):
            await api.generation_cancel(request.model, request.generation_id, "reader_gone")
    except (LlamawebError, TimeoutError):
        # Its reader lease isn't renewed any more, so it ends within seconds all the same.
        log.warning("a generation without a client could not be cancelled at once")
