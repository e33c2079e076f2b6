"""One model config on this host: its process, its restarts, its watchdog."""

from __future__ import annotations

import logging
import time

from inference.models import ModelConfig
from inference.queues.contract import SUPERVISOR_ID, Beat, Queue
from inference.supervisor.credentials import engine_redis_url
from inference.supervisor.engine_process import EngineProcess
from inference.supervisor.policy import Restart, after_exit
from inference.supervisor.specs import engine_spec
from llamaweb.lib.errors import FailedError

log = logging.getLogger(__name__)

MISSING_FILE_RETRY_S = 2.0
WATCHDOG_LOOKS = 60  # looks (one a second) without a step or a sign of life: it is killed
STOP_S = 6.0  # an engine that hasn't drained by then is killed
KILL_S = 2.0
DRAIN_S = 2 * 3600.0  # what runs has a deadline of its own; an engine that outlives all is killed


class SupervisedEngine:
    """Keeps one engine process alive; every method returns soon but `wait_end`."""

    def __init__(self, config: ModelConfig, queue: Queue) -> None:
        self.config = config
        self.restart = Restart()
        self._queue = queue
        self._process: EngineProcess | None = None
        self._start_ts = 0.0
        self._steps = -1
        self._looks = 0
        self._ends_ts: float | None = None
        self._is_hurried = False

    @property
    def is_running(self) -> bool:
        """Whether a process lives."""
        return self._process is not None

    @property
    def is_draining(self) -> bool:
        """Whether it ends once what runs has ended."""
        return self._ends_ts is not None and not self._is_hurried

    @property
    def unservable_reason(self) -> str | None:
        """Why nothing can serve the model, if that is so."""
        return self.restart.reason if self.restart.is_unservable and not self.is_running else None

    def look_after(self, now: float) -> None:
        """Start it when it is due; when it ended, say why and when it starts again."""
        if self._process is None:
            if now >= self._start_ts and self._ends_ts is None:
                self._start()
            return
        code = self._process.poll()
        if code is None:
            if self._ends_ts is not None and now > self._ends_ts:
                self._process.kill()
            return
        self._gone(self._process, code)
        self.restart = after_exit(
            self.restart,
            exit_code=code,
            lived_s=self._process.lived_s,
            last_line=self._process.last_line,
        )
        self._process = None
        self._start_ts = now + self.restart.delay_s
        if self._ends_ts is None:
            log.warning("model %s: %s", self.config.name, self.restart.reason)
            self.tell()

    def watch(self) -> None:
        """Kill an engine that is silent, or runs sequences and finishes no step.

        Called every second while Redis answers; what counts is the number of looks, so that an
        engine isn't blamed for a Redis that was away.
        """
        if self._process is None:
            return
        own_id = self._process.spec.engine_id
        for status in self._queue.engines(self.config.name):
            is_heard = status.engine_id == own_id and not status.is_silent
            if is_heard and (not status.waiting_for_step or status.steps != self._steps):
                self._steps, self._looks = status.steps, 0
                return
        self._looks += 1
        if self._looks > WATCHDOG_LOOKS:
            log.error("model %s: no step for %d s, killed", self.config.name, self._looks)
            self._process.kill()

    def tell(self) -> None:
        """Let /health and administrators see what the supervisor knows."""
        self._queue.beat(
            self.config.name,
            Beat(
                engine_id=SUPERVISOR_ID,
                state="starting" if self.is_running else "stopped",
                info={"reason": self.restart.reason, "failures": self.restart.failures},
            ),
        )

    def drain(self, now: float) -> None:
        """Let what runs end, take nothing more, never start it again; `end` makes it hurry."""
        if self._ends_ts is None:
            self._ends_ts = now + DRAIN_S
            if self._process is not None:
                self._process.drain()

    def end(self, now: float) -> None:
        """Have it end within seconds, never start it again; `look_after` kills it if it doesn't."""
        if not self._is_hurried:
            self._is_hurried = True
            self._ends_ts = now + STOP_S
            if self._process is not None:
                self._process.terminate()

    def wait_end(self) -> None:
        """Block until an ended engine is gone; raises UnavailableError when Redis went first."""
        process = self._process
        if process is None:
            return
        if not process.wait(STOP_S):
            process.kill()
            process.wait(KILL_S)
        self._process = None
        self._gone(process, process.poll() or 0)

    def _start(self) -> None:
        try:
            spec = engine_spec(
                self.config,
                redis_url=engine_redis_url(self.config.name),
                use_extra_bufts=self.restart.use_extra_bufts,
            )
        except FailedError as error:
            self.restart = Restart(reason=error.message, is_unservable=True)
            self._start_ts = time.monotonic() + MISSING_FILE_RETRY_S
            self.tell()
            return
        self._steps, self._looks = -1, 0
        self._process = EngineProcess(spec)
        log.info("model %s: engine started (pid %d)", self.config.name, self._process.pid)
        self.tell()

    def _gone(self, process: EngineProcess, code: int) -> None:
        """Its leases end now; only a crash counts as a death."""
        self._queue.engine_gone(self.config.name, process.spec.engine_id, death=code != 0)
