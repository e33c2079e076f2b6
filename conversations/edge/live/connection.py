"""What one live connection does, whatever carries it: WebSocket (`consumer`) or SSE (`sse`).

One task, the pump, does everything that reads the database, in order: so a change can't fall
between a snapshot and what follows it. Tails and acts run beside it. Nothing is kept here that a
reconnect to another process would need.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from django.db import DatabaseError

from conversations.edge.errors import error_out
from conversations.edge.live.act_runner import LiveActs
from conversations.edge.live.bounds import MAX_WAITING_JOBS
from conversations.edge.live.follows import Follows
from conversations.edge.live.frames import (
    Act,
    Close,
    ErrorFrame,
    Hello,
    ModelsFrame,
    Numbered,
    Open,
)
from conversations.edge.live.instruments import count_refused
from conversations.edge.live.reads import feed_read
from conversations.edge.live.sign_in import SignIn
from conversations.edge.live.tail import SILENCE_S
from conversations.edge.live.tasks_end import tasks_end
from conversations.edge.live.watch import Watch
from conversations.edge.schemas import ModelOut
from llamaweb.lib.errors import BusyError, DeadlineError, LlamawebError, UnavailableError

BACKOFF_S: Final = 0.2
BACKOFF_CAP_S: Final = 2.0
AWAY = "the server can't read its data at the moment; it tries again"

log = logging.getLogger(__name__)
Job = Hello | Open | Close
Send = Callable[..., Awaitable[None]]


class Live:
    """Use: `start`, then `take` what the client asks, `close` at the end. `ended` is set when the
    connection is to be closed, with the error that says why.

    Args:
        send: sends a frame, `urgent=True` for one that can't wait; raises DeadlineError when the
            client is too slow.
    """

    def __init__(self, sign_in: SignIn, watch: Watch, send: Send) -> None:
        self.sign_in = sign_in
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._watch = watch
        self._out = send
        self._jobs: deque[Job] = deque()
        self._wake = asyncio.Event()
        self._has_news = False
        self._feed: int | None = None  # the revision that was sent; None before Hello
        self._models: tuple[ModelOut, ...] | None = None  # as they are now; None: not known yet
        self._models_sent: tuple[ModelOut, ...] | None = None
        self._follows = Follows(sign_in.user, watch.threads, send=self._send, failed=self.end)
        self._acts = LiveActs(
            sign_in.user, watch.threads, reply=self.send_urgent, done=self._look_now
        )
        self._tasks: list[asyncio.Task[None]] = []

    # --- what carries it calls

    def start(self) -> None:
        """Begin.

        Raises:
            BusyError: the user has too many connections.
        """
        self._watch.add(self)
        self._tasks = [
            asyncio.create_task(self._pump(), name="live-pump"),
            asyncio.create_task(self._say_why(), name="live-reasons"),
        ]

    async def close(self) -> None:
        """Stop everything; the connection is gone or going."""
        await self._acts.close()  # first: who was signed out does nothing more
        await tasks_end(self._tasks)
        await self._follows.close_all()
        await self._watch.remove(self)
        if not self.ended.done():
            self.ended.cancel()

    async def take(self, frame: Job | Act) -> None:
        """Do what the client asks; returns at once.

        Raises:
            BusyError: too much waits.
        """
        if isinstance(frame, Act):
            await self._acts.put(frame)
            return
        if len(self._jobs) >= MAX_WAITING_JOBS:
            count_refused("jobs")
            raise BusyError(
                f"{MAX_WAITING_JOBS} opens and closes wait already",
                reason="jobs",
                retry_after_s=1.0,
            )
        self._jobs.append(frame)
        self._wake.set()

    # --- the Watch calls

    def feed_is_at(self, revision: int) -> None:
        """How far the user's feed is."""
        if self._feed is not None and revision != self._feed:
            self._look_now()

    def models_are(self, models: tuple[ModelOut, ...]) -> None:
        """What the user may choose among."""
        self._models = models
        if models != self._models_sent:
            self._wake.set()

    def end(self, error: Exception) -> None:
        """The connection is to be closed; the first reason counts."""
        if not self.ended.done():
            self.ended.set_result(error)

    # --- inside

    def _look_now(self) -> None:
        self._has_news = True
        self._wake.set()

    async def send_urgent(self, frame: Numbered) -> None:
        """Send what can't wait for a slow client."""
        await self._send(frame, urgent=True)

    async def _send(self, frame: Numbered, *, urgent: bool = False) -> None:
        try:
            await self._out(frame, urgent=urgent)
        except DeadlineError as error:
            self.end(error)
            raise

    async def _pump(self) -> None:
        backoff_s = BACKOFF_S
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._work()
                backoff_s = BACKOFF_S
                continue
            except (UnavailableError, DeadlineError, DatabaseError) as error:
                if self.ended.done():
                    return
                log.warning("a live connection waits: %s", type(error).__name__)
                away = UnavailableError(AWAY)
                if backoff_s == BACKOFF_S:  # said once
                    await self.send_urgent(ErrorFrame(error=error_out(away)))
            except Exception as error:
                log.exception("a live connection failed")
                self.end(error)
                return
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, BACKOFF_CAP_S)
            self._look_now()

    async def _work(self) -> None:
        """What was asked, then what is new; a job that fails is done again."""
        while self._jobs:
            try:
                await self._do(self._jobs[0])
            except LlamawebError as error:
                if error.retryable:
                    raise
                await self._send(ErrorFrame(error=error_out(error)))
            self._jobs.popleft()
        if self._has_news and self._feed is not None:
            self._has_news = False
            try:
                await self._look(self._feed)
            except BaseException:
                self._has_news = True
                raise
        if self._feed is not None and self._models not in (None, self._models_sent):
            await self._send_models(self._models or ())

    async def _do(self, job: Job) -> None:
        if isinstance(job, Hello):
            frame = await self._watch.threads.run(feed_read, self.sign_in.user, job.feed)
            self._feed = frame.revision
            await self._send(frame)
        elif isinstance(job, Open):
            await self._follows.open(job.conversation_id, job.revision, job.cursors)
        else:
            await self._follows.close(job.conversation_id, "asked")

    async def _look(self, since: int) -> None:
        frame = await self._watch.threads.run(feed_read, self.sign_in.user, since)
        if frame.revision == since and not frame.reset:
            return
        changed = {*frame.gone, *(row.id for row in frame.conversations)}
        for conversation_id in self._follows.ids:
            if frame.reset or conversation_id in changed:
                await self._follows.refresh(conversation_id)
        await self._send(frame)
        self._feed = frame.revision

    async def _send_models(self, models: tuple[ModelOut, ...]) -> None:
        known = self._models_sent or ()
        changed = [model for model in models if model not in known]
        await self._send(ModelsFrame(names=[model.name for model in models], models=changed))
        self._models_sent = models

    async def _say_why(self) -> None:
        while True:
            await asyncio.sleep(SILENCE_S)
            try:
                await self._follows.say_why(self._watch.reasons)
            except DeadlineError:
                return
            except Exception:
                log.exception("nobody could say why an answer waits")
