"""The supervisor's loop: desired engines, living engines, and the queue's housekeeping.

Nothing is adopted: engines die with the supervisor and are started again from what Redis and the
database say.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from django.db import OperationalError, close_old_connections

from inference.models import ModelConfig
from inference.queues.contract import Queue
from inference.registry.selectors import SERVED
from inference.supervisor.credentials import renew_engine_users
from inference.supervisor.engine import SupervisedEngine
from inference.supervisor.fleet import Fleet
from inference.supervisor.housekeeping import Housekeeping
from inference.supervisor.trial_process import TrialSeat
from llamaweb.lib.errors import UnavailableError

log = logging.getLogger(__name__)
Wanted = ModelConfig.Wanted

TICK_S = 0.2
DESIRED_EVERY_S = 1.0  # how often the database is asked what should run
PLACE_EVERY_S = 0.4  # how often the queues are asked who waits for a model
SWEEP_EVERY_S = 1.0


class Supervisor:
    """Runs in one thread; `stop()` may be called from a signal handler."""

    def __init__(self, queue: Queue, housekeeping: Housekeeping) -> None:
        self._queue = queue
        self._housekeeping = housekeeping
        self._fleet = Fleet(queue, housekeeping)
        self._engines: dict[int, SupervisedEngine] = {}
        self._ending: list[SupervisedEngine] = []
        self._seat = TrialSeat()
        self._stopping = threading.Event()
        self._desired_ts = 0.0
        self._place_ts = 0.0
        self._sweep_ts = 0.0

    def stop(self) -> None:
        """End `run`; engines drain first."""
        self._stopping.set()

    def run(self) -> None:
        """Until stopped: start, watch, sweep."""
        try:
            while not self._stopping.wait(TICK_S):
                self._tick(time.monotonic())
        finally:
            self._stop_all()

    def _tick(self, now: float) -> None:
        """Each part by itself: what fails in one must not end the engines."""
        if now >= self._desired_ts:
            self._desired_ts = now + DESIRED_EVERY_S
            guarded("the model configs", self._update_desired, now)
        if now >= self._place_ts:
            self._place_ts = now + PLACE_EVERY_S
            engines = list(self._engines.values())
            guarded("places in memory", self._fleet.place, engines, self._ending, now)
        for engine in [*self._engines.values(), *self._ending]:
            guarded(f"model {engine.config.name}", engine.look_after, now)
        self._ending = [engine for engine in self._ending if engine.is_running]
        if now >= self._sweep_ts:
            self._sweep_ts = now + SWEEP_EVERY_S
            guarded("engine users", renew_engine_users)
            for engine in self._engines.values():
                guarded(f"model {engine.config.name}", self._sweep, engine)
        guarded("finished generations", self._housekeeping.dispatch)

    def _update_desired(self, now: float) -> None:
        """Take up new and changed configs; let the engines of others drain."""
        close_old_connections()
        rows = ModelConfig.objects.filter(is_enabled=True).select_related("file")
        enabled = {config.pk: config for config in rows}
        desired = {pk: config for pk, config in enabled.items() if config.wanted in SERVED}
        for pk, engine in list(self._engines.items()):
            config = desired.get(pk)
            if config is None or config.updated_at != engine.config.updated_at:
                log.info("model %s: its engine ends", engine.config.name)
                self._ending.append(self._engines.pop(pk))
                continue
            if config.restart_at != engine.config.restart_at:
                log.info("model %s: its engine is restarted", config.name)
                engine.renew(now)
            engine.config = config  # whether it is wanted or pinned restarts nothing
        for engine in self._ending:
            config = enabled.get(engine.config.pk)
            if config is not None and config.wanted == Wanted.DRAINED:
                engine.drain(now)
            elif config is None or config.wanted == Wanted.UNLOADED or not engine.is_draining:
                engine.end(now)
        names = {config.name for config in desired.values()}
        unloaded = {config.name for config in enabled.values()} - names
        self._housekeeping.refuse_strays(names, unloaded)
        waiting = {engine.config.pk for engine in self._ending}
        for pk, config in desired.items():
            if pk not in self._engines and pk not in waiting:
                self._engines[pk] = SupervisedEngine(
                    config, self._queue, self._seat, is_placed=False
                )

    def _sweep(self, engine: SupervisedEngine) -> None:
        self._housekeeping.reap(engine.config.name)
        if engine.unservable_reason is not None:
            self._housekeeping.refuse(engine.config.name, engine.unservable_reason)
        self._fleet.tell(engine)
        engine.watch()

    def _stop_all(self) -> None:
        """Drain all engines side by side."""
        engines = [*self._engines.values(), *self._ending]
        for engine in engines:
            engine.end(time.monotonic())
        for engine in engines:
            guarded(f"model {engine.config.name}", engine.wait_end)


def guarded(what: str, act: Callable[..., None], *args: object) -> None:
    """Do `act`; an error is said and ends nothing else."""
    try:
        act(*args)
    except (UnavailableError, OperationalError) as error:
        log.warning("%s: %s", what, error)
    except Exception:
        log.exception("%s: failed, tried again", what)
