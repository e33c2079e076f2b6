"""The acts of one connection: one after another, beside everything else it does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from conversations.edge.acts import act_run
from conversations.edge.errors import AWAY, DATABASE_AWAY, error_out
from conversations.edge.live.bounds import ACT_S, ACTS_BURST, ACTS_PER_S, MAX_WAITING_ACTS
from conversations.edge.live.frames import Act, ReplyFrame
from conversations.edge.live.instruments import count_refused
from conversations.edge.live.rate import Rate
from conversations.edge.live.tasks_end import tasks_end
from conversations.edge.live.threads import LiveThreads
from llamaweb.accounts.models import User
from llamaweb.lib.errors import (
    BusyError,
    DeadlineError,
    FailedError,
    LlamawebError,
    UnavailableError,
)

log = logging.getLogger(__name__)


class LiveActs:
    """Runs acts for `user` and replies; `done` is called after each."""

    def __init__(
        self,
        user: User,
        threads: LiveThreads,
        *,
        reply: Callable[[ReplyFrame], Awaitable[None]],
        done: Callable[[], None],
    ) -> None:
        self._user = user
        self._threads = threads
        self._reply = reply
        self._done = done
        self._rate = Rate(ACTS_PER_S, ACTS_BURST)
        self._waiting: asyncio.Queue[Act] = asyncio.Queue(MAX_WAITING_ACTS)
        self._task: asyncio.Task[None] | None = None

    async def put(self, act: Act) -> None:
        """Do it when those before it are done; refused with a reply when there are too many."""
        if self._waiting.full() or not self._rate.take():
            count_refused("acts")
            error = BusyError(
                f"too many acts at once; at most {ACTS_PER_S:g} a second",
                reason="acts",
                retry_after_s=1.0,
            )
            await self._reply(ReplyFrame(ref=act.ref, error=error_out(error)))
            return
        self._waiting.put_nowait(act)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="live-acts")

    async def close(self) -> None:
        """Start no more; one that runs in the database ends by itself, unanswered."""
        await tasks_end([self._task])

    async def _run(self) -> None:
        while True:
            act = await self._waiting.get()
            reply = ReplyFrame(ref=act.ref)
            try:
                reply.result = await self._threads.run_within(
                    ACT_S, act_run, self._user, act.name, act.args
                )
            except LlamawebError as error:
                reply.error = error_out(error)
            except DATABASE_AWAY as error:
                log.warning("an act found no database: %s", type(error).__name__)
                reply.error = error_out(UnavailableError(AWAY))
            except Exception:
                log.exception("an act failed")
                reply.error = error_out(FailedError("this didn't work; the log says why"))
            self._done()
            try:
                await self._reply(reply)
            except DeadlineError:  # the connection is ending for it, and takes no more acts
                return
