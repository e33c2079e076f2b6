"""The requests that this process has submitted for somebody, until they have ended.

While there are any, it looks every `LOOK_S` whether those who asked may still have them answered,
and cancels what isn't theirs any more. What was reserved for them is settled as soon as their end
is read here; of those whose end nobody reads the job of the usage ledger does it.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeAlias

from django.db import DatabaseError, connections

from inference.protocol.accounts import Account
from inference.protocol.events import Cancelled, CancelledBy, Failed, Finished
from inference.protocol.requests import EngineRequest, GenerateRequest
from inference.queues.contract import Read
from inference.registry import quotas
from inference.registry.standing import Standing, standings_lost
from llamaweb.accounts.database import in_database
from llamaweb.lib.errors import LlamawebError

LOOK_S: Final = 0.3
AGAIN_S: Final = 1.0  # after a look that failed
CLOSE_S: Final = 1.0

Cancel: TypeAlias = Callable[[str, str, CancelledBy], Awaitable[bool]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Open:
    """A submitted request. `until_at`: wall time when it is over wherever it is; `is_kept`: it goes
    on without a reader."""

    generation_id: str
    account: Account
    model: str
    until_at: float
    is_kept: bool

    @property
    def standing(self) -> Standing:
        """What it needs to go on."""
        return Standing(self.account.user_id, self.account.key_id, self.model)


class OpenRequests:
    """Belongs to one event loop; `cancel` ends a generation."""

    def __init__(self, cancel: Cancel) -> None:
        self._cancel = cancel
        self._open: dict[str, Open] = {}
        self._task: asyncio.Task[None] | None = None
        self._settling: set[asyncio.Task[None]] = set()

    async def reserve(self, request: EngineRequest) -> None:
        """Keep what `request` may use at most, if its account is limited; nothing when who
        waits for it is cancelled.

        Raises:
            BusyError: a limit is reached.
            UnavailableError: Redis can't be reached.
        """
        account = Account.read(request.account)
        if account is not None and quotas.has_quota():
            kept = asyncio.create_task(_reserve(account, request), name="reserve")
            self._settling.add(kept)
            kept.add_done_callback(self._settling.discard)
            try:
                await asyncio.shield(kept)
            except asyncio.CancelledError:  # the thread goes on all the same
                kept.add_done_callback(lambda task: self._undo(task, request))
                raise

    def hold(self, request: EngineRequest) -> None:
        """It is submitted."""
        account = Account.read(request.account)
        if account is None:
            return
        is_kept = isinstance(request, GenerateRequest) and request.keep
        self._open[request.generation_id] = Open(
            request.generation_id, account, request.model, request.deadline_at, is_kept
        )
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="open-requests")

    def refused(self, request: EngineRequest) -> None:
        """It couldn't be submitted: nothing is used."""
        account = Account.read(request.account)
        if account is not None:
            self._settle_soon(account, request.generation_id, 0)

    def told(self, generation_id: str, read: Read) -> None:
        """`read` is the next piece of its log, which may be the last."""
        end = read.entries[-1].event if read.entries else None
        if read.reset is not None and not read.entries:
            end = read.reset.terminal
        if isinstance(end, Finished | Failed | Cancelled):
            ended = self._open.pop(generation_id, None)
            if ended is not None:
                used = end.usage.prompt_tokens + end.usage.completion_tokens
                self._settle_soon(ended.account, generation_id, used)

    def left(self, generation_id: str) -> None:
        """Its reader reads no more, with which it ends unless it is kept."""
        found = self._open.get(generation_id)
        if found is not None and not found.is_kept:
            del self._open[generation_id]

    async def close(self) -> None:
        """Look no more."""
        self._open.clear()
        for task in (self._task, *self._settling):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=CLOSE_S)
        self._task = None

    def _undo(self, reserving: asyncio.Task[None], request: EngineRequest) -> None:
        if not reserving.cancelled() and reserving.exception() is None:
            self.refused(request)

    def _settle_soon(self, account: Account, generation_id: str, tokens: int) -> None:
        if quotas.has_quota():
            task = asyncio.create_task(_settle(account, generation_id, tokens), name="settle")
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def _run(self) -> None:
        pool = ThreadPoolExecutor(1, thread_name_prefix="standing")
        wait_s = LOOK_S
        try:
            while self._open:
                await asyncio.sleep(wait_s)
                wait_s = LOOK_S
                try:
                    await self._look(pool)
                except (LlamawebError, DatabaseError) as error:
                    log.warning("rights of running requests can't be read: %s", error)
                    wait_s = AGAIN_S
                except Exception:
                    log.exception("rights of running requests can't be read")
                    wait_s = AGAIN_S
        finally:
            pool.submit(connections.close_all)
            pool.shutdown(wait=False)

    async def _look(self, pool: ThreadPoolExecutor) -> None:
        now = time.time()
        for one in list(self._open.values()):
            if one.until_at <= now:
                self._open.pop(one.generation_id, None)
        asked = {one.standing for one in self._open.values()}
        if not asked:
            return
        lost = await in_database(standings_lost, executor=pool)(asked)
        for one in list(self._open.values()) if lost else ():
            if one.standing in lost:
                await self._cancel(one.model, one.generation_id, "owner")


async def _reserve(account: Account, request: EngineRequest) -> None:
    await in_database(quotas.quota_reserve)(account, request)


async def _settle(account: Account, generation_id: str, tokens: int) -> None:
    try:
        await in_database(quotas.quota_settle)(account, generation_id, tokens)
    except LlamawebError:
        log.warning("a reservation couldn't be settled at once; the ledger's job will")


_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, OpenRequests] = (
    weakref.WeakKeyDictionary()
)


def open_requests(cancel: Cancel) -> OpenRequests:
    """Those of the running event loop."""
    return _by_loop.setdefault(asyncio.get_running_loop(), OpenRequests(cancel))


async def open_requests_close() -> None:
    """For programs that end their event loop."""
    found = _by_loop.pop(asyncio.get_running_loop(), None)
    if found is not None:
        await found.close()
