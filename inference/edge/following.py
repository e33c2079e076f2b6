"""Reading the logs of the generations of one reply, in the order they arrive or in a fixed one.

Nothing here knows a wire format, nor who asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeAlias

from inference import api
from inference.edge.instruments import RequestMeter
from inference.edge.rejoining import Account, Seen, Told
from inference.edge.steps import LOST_LOG, Broken, Step
from inference.protocol.events import Entry, Snapshot
from inference.queues.contract import Position, Read
from llamaweb.lib.errors import LlamawebError, UnavailableError

MAX_WAITING_READS = 64  # per generation, between its log and a slow client

log = logging.getLogger(__name__)

Source: TypeAlias = Callable[[str, str], AsyncIterator[Read | Position]]
_Item: TypeAlias = "tuple[int, Read | LlamawebError | None]"
_Part: TypeAlias = "Entry | Snapshot | LlamawebError"


class Batch:
    """Steps of the generation `index` that came from the log entry `seq`."""

    __slots__ = ("index", "seq", "told")

    def __init__(self, index: int, seq: int, told: list[Told]) -> None:
        self.index = index
        self.seq = seq
        self.told = told

    @property
    def steps(self) -> list[Step]:
        """Without what its reader knows of them."""
        return [told.step for told in self.told]


class Turns:
    """Whose entry comes next where the order must not depend on when they arrive: the answers to
    one prompt (`groups`: how many each has) entry by entry, one prompt after the other."""

    def __init__(self, groups: Sequence[int]) -> None:
        self._groups: list[range] = []
        for size in groups:
            first = self._groups[-1].stop if self._groups else 0
            self._groups.append(range(first, first + size))
        self._next_seq = [0] * sum(groups)
        self._is_over = [False] * sum(groups)

    @property
    def due(self) -> int | None:
        """Index of the generation; None when all are over."""
        while self._groups:
            running = [index for index in self._groups[0] if not self._is_over[index]]
            if running:
                return min(running, key=lambda index: (self._next_seq[index], index))
            del self._groups[0]
        return None

    def took(self, index: int, seq: int, *, is_over: bool) -> None:
        """Everything of it up to `seq` was read."""
        self._next_seq[index] = max(self._next_seq[index], seq + 1)
        self._is_over[index] = is_over


class Follower:
    """Reads generations (`(model, id)` each) from their first events on; `close` it at the end.

    `groups` None: as they arrive, else see `Turns`. `seen`: what the reader has of each. `source`:
    where events come from; `is_live` False: it ends when there are no more. `needs_whole_logs`: a
    log that was cut is as good as lost.
    """

    def __init__(
        self,
        logs: Sequence[tuple[str, str]],
        *,
        groups: Sequence[int] | None = None,
        seen: Sequence[Seen | None] | None = None,
        meters: Sequence[RequestMeter | None] | None = None,
        source: Source | None = None,
        is_live: bool = True,
        needs_whole_logs: bool = False,
    ) -> None:
        self._logs = tuple(logs)
        self._accounts = [Account(each) for each in seen or [None] * len(logs)]
        self._meters = meters or [None] * len(logs)
        self._turns = None if groups is None else Turns(groups)
        self._source = source
        self._is_live = is_live
        self._needs_whole_logs = needs_whole_logs
        num_queues, size = (1, len(logs)) if groups is None else (len(logs), 1)
        self._queues: list[asyncio.Queue[_Item]] = [
            asyncio.Queue(MAX_WAITING_READS * size) for _ in range(num_queues)
        ]
        self._backlog: list[deque[_Part]] = [deque() for _ in logs]
        self._ready: list[Batch] = []
        self._pumps: list[asyncio.Task[None]] = []
        self.has_broken = False  # a generation ended without its answer
        self.was_reset = False  # a log was cut: its entries came as a snapshot

    @property
    def is_over(self) -> bool:
        """Whether every generation has ended and all its steps were given out."""
        return not self._ready and all(account.is_over for account in self._accounts)

    @property
    def skip(self) -> int:
        """Frames behind the end of all that the reader has."""
        return max(account.skip for account in self._accounts)

    def start(self, index: int) -> None:
        """Begin to read one of them."""
        pump = asyncio.create_task(self._pump(index), name="generation-reader")
        self._pumps.append(pump)

    async def first(self, timeout_s: float) -> Batch | None:
        """The first steps of any generation, or None after `timeout_s`; `next` gives them again."""
        batch = await self.next(timeout_s)
        if batch is not None:
            self._ready.insert(0, batch)
        return batch

    async def next(self, timeout_s: float | None = None) -> Batch | None:
        """The next steps, or None: nothing came within `timeout_s`, or all is over, or was read."""
        ends_ts = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        while not self._ready:
            if self.is_over:
                return None
            due = self._due()
            if due is not None and self._backlog[due]:
                self._fold(due, self._backlog[due].popleft())
                continue
            queue = self._queues[0 if self._turns is None or due is None else due]
            try:
                async with asyncio.timeout_at(ends_ts):
                    index, item = await queue.get()
            except TimeoutError:
                return None
            if item is None:
                return None
            self._backlog[index] += _parts(item)
        return self._ready.pop(0)

    def close(self) -> None:
        """Stop reading; from the event loop, any number of times."""
        for pump in self._pumps:
            pump.cancel()

    def _due(self) -> int | None:
        if self._turns is not None:
            return self._turns.due
        return next((index for index, parts in enumerate(self._backlog) if parts), None)

    def _fold(self, index: int, part: _Part) -> None:
        account, meter, seq = self._accounts[index], self._meters[index], -1
        if account.is_over:
            return
        if isinstance(part, Snapshot) and self._needs_whole_logs:
            part = UnavailableError("the log was cut")
        if isinstance(part, LlamawebError):
            log.warning("a reader lost its generation: %s", type(part).__name__)
            told = account.lose()
        elif isinstance(part, Snapshot):
            told, seq, self.was_reset = account.reset(part), part.seq, True
            if meter is not None and part.terminal is not None:
                meter.record(part.terminal)
        else:
            told, seq = account.feed(part), part.seq
            if meter is not None:
                meter.record(part.event)
        if self._turns is not None:
            self._turns.took(index, seq, is_over=account.is_over)
        if told:
            self._ready.append(Batch(index, seq, told))
            end = told[-1].step
            self.has_broken |= isinstance(end, Broken) and end.end is not LOST_LOG

    async def _pump(self, index: int) -> None:
        """Carry one generation's log to `next`; waits while the client is slow."""
        queue = self._queues[0 if self._turns is None else index]
        events = (self._source or api.generation_events)(*self._logs[index])
        try:
            async with contextlib.aclosing(events):  # type: ignore[type-var]
                async for item in events:
                    if not isinstance(item, Position):
                        await queue.put((index, item))
            if not self._is_live:
                await queue.put((index, None))
        except LlamawebError as error:
            await queue.put((index, error))
        except Exception:
            log.exception("reading a generation failed")
            await queue.put((index, UnavailableError("the answer can't be read")))


def _parts(item: Read | LlamawebError) -> list[_Part]:
    """What a read brought, each to be folded by itself."""
    if isinstance(item, LlamawebError):
        return [item]
    if item.gone:
        return [UnavailableError("the answer is gone")]
    return [*([] if item.reset is None else [item.reset]), *item.entries]
