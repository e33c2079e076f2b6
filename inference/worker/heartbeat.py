"""Renews the process's leases, says that it lives, and brings cancels, deadlines and purges."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from inference.protocol.events import Failed
from inference.queues.contract import Beat, Queue
from inference.worker.inbox import Abort, Drop, EndReasoning, Fail, Order, Purge
from inference.worker.running import RunningSet
from llamaweb.lib.clock import Clock
from llamaweb.lib.errors import UnavailableError

log = logging.getLogger(__name__)

EngineState: TypeAlias = Literal["starting", "loading", "ready", "draining", "stopped"]


class Heartbeat:
    """Beats every `interval_s` and at once when `now()` is called."""

    def __init__(
        self,
        *,
        model: str,
        engine_id: str,
        queue: Queue,
        running: RunningSet,
        clock: Clock,
        interval_s: float,
        hand_over: Callable[[Order], None],
        progress: Callable[[], tuple[int, bool]],
        info: Callable[[], Mapping[str, float | int | str]],
    ) -> None:
        self._model = model
        self._engine_id = engine_id
        self._queue = queue
        self._running = running
        self._clock = clock
        self._interval_s = interval_s
        self._hand_over = hand_over
        self._progress = progress
        self._info = info
        self._due = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._mark = ""
        self.state: EngineState = "loading"

    def start(self) -> None:
        """Start beating."""
        self._thread.start()

    def now(self) -> None:
        """Beat at once: a cancel may be waiting."""
        self._due.set()

    def stop(self) -> None:
        """Beat a last time as "stopped"."""
        self.state = "stopped"
        self._stopping.set()
        self._due.set()
        self._thread.join(timeout=2 * self._interval_s)

    def _run(self) -> None:
        last = False
        while not last:
            last = self._stopping.is_set()
            self._due.clear()
            try:
                self._beat()
            except UnavailableError as error:
                log.warning("no heartbeat, redis is away: %s", error)
            except Exception:
                log.exception("heartbeat failed")
            if not last:
                self._due.wait(self._interval_s)

    def _beat(self) -> None:
        steps, waiting_for_step = self._progress()
        leases = dict(self._running.epochs())
        reply = self._queue.beat(
            self._model,
            Beat(
                engine_id=self._engine_id,
                state=self.state,
                steps=steps,
                running=tuple(leases.items()),
                waiting_for_step=waiting_for_step,
                info=self._info(),
                mark=self._mark,
            ),
        )
        for generation_id in reply.lost:
            running = self._running.get(generation_id)
            if running is not None and running.claim.epoch == leases.get(generation_id):
                self._running.remove(generation_id, running.claim.epoch)
                self._hand_over(Drop(generation_id, running.claim.epoch))
        for generation_id, by in reply.cancelled:
            if generation_id in leases:
                self._hand_over(Abort(generation_id, leases[generation_id], by))
        for generation_id in reply.reasoning_ended:
            self._hand_over(EndReasoning(generation_id, leases[generation_id]))
        for purge in reply.purges:
            for conversation in purge.conversations or (None,):
                self._hand_over(Purge(purge.owner_key or None, conversation))
        self._mark = reply.mark  # from here on they aren't told again
        self._end_overdue()

    def _end_overdue(self) -> None:
        now = self._clock.wall()
        for running in self._running:
            request = running.claim.request
            if now > request.deadline_at:
                failure = Failed(
                    "deadline_exceeded",
                    "the request's deadline passed before the answer was complete",
                    retryable=True,
                )
                self._hand_over(Fail(request.generation_id, running.claim.epoch, failure))
