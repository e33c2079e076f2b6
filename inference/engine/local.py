"""An engine inside a program: a thread steps it, callers iterate over events.

What the worker does over a queue, in a few lines, for benches, scripts and tests of engines.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from inference.engine.contract import Prepared, PreparedT, RemoteEngine, StepEngine
from inference.engine.errors import failed_event
from inference.protocol.events import Event, Failed, is_terminal
from inference.protocol.requests import GenerateRequest
from llamaweb.lib.clock import Clock, SystemClock
from llamaweb.lib.errors import BusyError, LlamawebError

logger = logging.getLogger(__name__)

MAX_WAITING = 256  # requests without a slot; more are refused
IDLE_WAKE_S = 0.5  # how late a deadline of a waiting request may be noticed
CLOSE_TIMEOUT_S = 10.0


@dataclass(eq=False, slots=True)
class _Job:
    """One caller of `generate`. Its queue is bounded by the length of an answer."""

    request: GenerateRequest
    sequence: Prepared
    loop: asyncio.AbstractEventLoop
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)


class LocalEngine:
    """See `LLMEngine`. Close it: it owns `engine` and a thread.

    `prepare` turns a request into tokens (the text pipeline); it runs in a worker thread.
    """

    def __init__(
        self,
        engine: StepEngine[PreparedT],
        prepare: Callable[[GenerateRequest], PreparedT],
        *,
        name: str = "local",
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.max_context = engine.max_context
        self._engine: StepEngine[Any] = engine
        self._prepare = prepare
        self._clock = clock or SystemClock()
        self._changed = threading.Condition()
        self._arrived: list[_Job] = []
        self._left: list[_Job] = []
        self._closing = False
        self._waiting: deque[_Job] = deque()
        self._running: dict[str, _Job] = {}
        if isinstance(engine, RemoteEngine):
            engine.attach(on_work=self._wake, on_trouble=lambda _reason: None)
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    async def generate(self, request: GenerateRequest) -> AsyncIterator[Event]:
        """See `LLMEngine.generate`."""
        try:
            sequence = await asyncio.to_thread(self._prepare, request)
        except LlamawebError as error:
            yield failed_event(error)
            return
        job = _Job(request, sequence, asyncio.get_running_loop())
        with self._changed:
            is_closing = self._closing
            self._arrived.append(job)
            self._changed.notify()
        if is_closing:
            yield Failed("model_unavailable", "the engine is closed")
            return
        try:
            while True:
                event = await job.events.get()
                yield event
                if is_terminal(event):
                    return
        finally:
            with self._changed:
                self._left.append(job)
                self._changed.notify()

    async def close(self) -> None:
        """End everything that runs or waits, stop the thread and free the model."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join, CLOSE_TIMEOUT_S)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    # --- the engine's thread

    def _run(self) -> None:
        try:
            while self._take_commands():
                self._expire()
                self._admit()
                if self._engine.has_work:
                    for item in self._engine.step():
                        self._publish(item.generation_id, item.event)
        except Exception:
            logger.exception("the engine's thread ended")
        with self._changed:
            self._closing = True
            self._waiting.extend(self._arrived)
        for job in (*self._running.values(), *self._waiting):
            self._send(job, Failed("model_unavailable", "the engine is closed", retryable=True))
        self._engine.close()

    def _take_commands(self) -> bool:
        with self._changed:
            if not (self._arrived or self._left or self._closing or self._engine.has_work):
                self._changed.wait(IDLE_WAKE_S)
            arrived, self._arrived = self._arrived, []
            left, self._left = self._left, []
        for job in arrived:
            if len(self._waiting) < MAX_WAITING:
                self._waiting.append(job)
            else:
                self._send(job, Failed("busy", "too many requests are waiting", retryable=True))
        for job in left:
            self._forget(job)
        return not self._closing

    def _forget(self, job: _Job) -> None:
        """The caller went, or has its terminal event."""
        if job in self._waiting:
            self._waiting.remove(job)
        generation_id = job.request.generation_id
        if self._running.get(generation_id) is job:
            del self._running[generation_id]
            self._engine.abort(generation_id, "reader_gone")

    def _expire(self) -> None:
        now = self._clock.wall()
        for job in [*self._waiting, *self._running.values()]:
            if now > job.request.deadline_at:
                self._forget(job)
                self._send(job, Failed("deadline_exceeded", "the deadline passed"))

    def _admit(self) -> None:
        while self._waiting and self._engine.free_slots > 0:
            job = self._waiting.popleft()
            try:
                self._engine.add(job.sequence)
            except BusyError:
                self._waiting.appendleft(job)
                return
            except Exception as error:
                self._send(job, failed_event(error))
            else:
                self._running[job.request.generation_id] = job

    def _publish(self, generation_id: str, event: Event) -> None:
        job = self._running.get(generation_id)
        if job is None:
            return
        if is_terminal(event):
            del self._running[generation_id]
        self._send(job, event)

    def _send(self, job: _Job, event: Event) -> None:
        try:
            job.loop.call_soon_threadsafe(job.events.put_nowait, event)
        except RuntimeError:  # the caller's loop is closed
            self._running.pop(job.request.generation_id, None)
            self._engine.abort(job.request.generation_id, "reader_gone")
