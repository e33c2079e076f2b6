"""The supervisor's loop: desired engines, living engines, and the queue's housekeeping.

Nothing is adopted: engines die with the supervisor and are started again from what Redis and the
database say.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import OperationalError, close_old_connections

from inference.models import ModelConfig
from inference.protocol.events import Failed
from inference.queues.contract import Beat, Queue
from inference.supervisor.credentials import engine_redis_url, renew_engine_users
from inference.supervisor.engine_process import EngineProcess
from inference.supervisor.policy import Restart, after_exit
from inference.supervisor.specs import engine_spec
from llamaweb.lib.errors import FailedError, UnavailableError

log = logging.getLogger(__name__)

TICK_S = 0.2
DESIRED_EVERY_S = 2.0  # how often the database is asked what should run
REAP_EVERY_S = 1.0
DISPATCH_AGAIN_S = 10.0  # a finished entry whose task was sent this long ago is sent again
WATCHDOG_S = 60.0  # sequences run and no step ends for this long: the engine is killed
STOP_S = 6.0  # engines that haven't drained by then are killed
ENGINE_ID = "supervisor"


@dataclass(slots=True)
class Engine:
    """A model config and the process that serves it, if one lives."""

    config: ModelConfig
    process: EngineProcess | None = None
    restart: Restart = field(default_factory=Restart)
    start_ts: float = 0.0
    steps: int = -1
    steps_ts: float = 0.0


class Supervisor:
    """Runs in one thread; `stop()` may be called from a signal handler."""

    def __init__(self, queue: Queue, send_task: Callable[[str, str], None]) -> None:
        self._queue = queue
        self._send_task = send_task
        self._engines: dict[int, Engine] = {}
        self._sent: dict[str, float] = {}
        self._stopping = threading.Event()
        self._due = {"desired": 0.0, "reap": 0.0}

    def stop(self) -> None:
        """End `run`; engines drain first."""
        self._stopping.set()

    def run(self) -> None:
        """Until stopped: start, watch, sweep."""
        try:
            while not self._stopping.wait(TICK_S):
                try:
                    self._tick()
                except UnavailableError as error:
                    log.warning("redis is away: %s", error)
                except OperationalError as error:
                    log.warning("the database is away: %s", error)
        finally:
            self._stop_all()

    def _tick(self) -> None:
        now = time.monotonic()
        if now >= self._due["desired"]:
            self._due["desired"] = now + DESIRED_EVERY_S
            self._update_desired()
        for engine in list(self._engines.values()):
            self._look_after(engine, now)
        if now >= self._due["reap"]:
            self._due["reap"] = now + REAP_EVERY_S
            renew_engine_users()
            self._sweep_queues()
            self._watch(now)
        self._dispatch_finished(now)

    def _update_desired(self) -> None:
        close_old_connections()
        desired = {config.pk: config for config in ModelConfig.objects.filter(is_enabled=True)}
        for pk, config in desired.items():
            known = self._engines.setdefault(pk, Engine(config))
            if known.config.updated_at != config.updated_at:
                log.info("model %s was changed; its engine starts again", config.name)
                self._end(known)
                self._engines[pk] = Engine(config)
        for pk in self._engines.keys() - desired.keys():
            self._end(self._engines.pop(pk))

    def _look_after(self, engine: Engine, now: float) -> None:
        """Start it when it is due; say why it ended."""
        if engine.process is None:
            if now >= engine.start_ts:
                self._start(engine)
            return
        code = engine.process.poll()
        if code is None:
            return
        self._queue.engine_gone(engine.config.name, engine.process.spec.engine_id, death=code != 0)
        engine.restart = after_exit(
            engine.restart,
            exit_code=code,
            lived_s=engine.process.lived_s,
            last_line=engine.process.last_line,
        )
        log.warning("model %s: %s", engine.config.name, engine.restart.reason)
        engine.process = None
        engine.start_ts = now + engine.restart.delay_s
        self._tell(engine)

    def _start(self, engine: Engine) -> None:
        try:
            spec = engine_spec(
                engine.config,
                redis_url=engine_redis_url(engine.config.name),
                use_extra_bufts=engine.restart.use_extra_bufts,
            )
        except FailedError as error:
            engine.restart = Restart(reason=error.message, is_unservable=True)
            engine.start_ts = time.monotonic() + DESIRED_EVERY_S
            self._tell(engine)
            return
        engine.steps = -1
        engine.process = EngineProcess(spec)
        log.info("model %s: engine started (pid %d)", engine.config.name, engine.process.pid)
        self._tell(engine)

    def _tell(self, engine: Engine) -> None:
        """Let /health and administrators see what the supervisor knows."""
        self._queue.beat(
            engine.config.name,
            Beat(
                engine_id=ENGINE_ID,
                state="stopped" if engine.process is None else "starting",
                info={"reason": engine.restart.reason, "failures": engine.restart.failures},
            ),
        )

    def _sweep_queues(self) -> None:
        for engine in self._engines.values():
            reaped = self._queue.reap(engine.config.name)
            if reaped.requeued or reaped.failed:
                log.warning(
                    "model %s: %d leases expired, %d requests given up",
                    engine.config.name,
                    len(reaped.requeued),
                    len(reaped.failed),
                )
            if engine.process is None and engine.restart.is_unservable:
                reason = engine.restart.reason
                self._queue.fail_queued(
                    engine.config.name,
                    Failed("model_unavailable", f"the model can't be loaded: {reason}"),
                )
            if engine.process is None:
                self._tell(engine)

    def _watch(self, now: float) -> None:
        """Kill an engine that runs sequences and finishes no step."""
        for engine in self._engines.values():
            if engine.process is None:
                continue
            for status in self._queue.engines(engine.config.name):
                if status.engine_id != engine.process.spec.engine_id:
                    continue
                if not status.waiting_for_step or status.steps != engine.steps:
                    engine.steps, engine.steps_ts = status.steps, now
                elif now - engine.steps_ts > WATCHDOG_S:
                    log.error("model %s: no step for %.0f s", engine.config.name, WATCHDOG_S)
                    engine.process.kill()

    def _dispatch_finished(self, now: float) -> None:
        """Send the task of every generation that ended unseen."""
        entries = self._queue.finished()
        pending = {entry.generation_id for _, entry in entries}
        self._sent = {gid: ts for gid, ts in self._sent.items() if gid in pending}
        for _, entry in entries:
            if now - self._sent.get(entry.generation_id, -DISPATCH_AGAIN_S) >= DISPATCH_AGAIN_S:
                self._sent[entry.generation_id] = now
                self._send_task(entry.on_finish, entry.generation_id)

    def _end(self, engine: Engine) -> None:
        """Drain one engine, then kill it."""
        if engine.process is None:
            return
        engine.process.terminate()
        if not engine.process.wait(STOP_S):
            engine.process.kill()
            engine.process.wait(STOP_S)
        code = engine.process.poll()
        self._queue.engine_gone(engine.config.name, engine.process.spec.engine_id, death=code != 0)
        engine.process = None

    def _stop_all(self) -> None:
        """Drain all engines side by side."""
        for engine in self._engines.values():
            if engine.process is not None:
                engine.process.terminate()
        for engine in self._engines.values():
            try:
                self._end(engine)
            except UnavailableError as error:
                log.warning("redis went first: %s", error)
