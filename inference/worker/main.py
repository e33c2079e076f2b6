"""The life of an engine process: load, warm up, serve, drain."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from inference.engine.adapters import told
from inference.engine.contract import LongSteps, RemoteEngine, StepEngine
from inference.engine.loading import LoadStoppedError
from inference.engine.serving import Pipeline, build_serving
from inference.protocol.slot_uses import encode_slot_uses
from inference.protocol.spec import EngineSpec
from inference.queues.contract import Queue, QueueConfig
from inference.worker.heartbeat import Heartbeat
from inference.worker.inbox import Drop, Wake
from inference.worker.intake import Intake
from inference.worker.loop import Loop
from inference.worker.outlet import Outlet
from inference.worker.running import RunningSet
from inference.worker.slot_uses import slot_uses
from inference.worker.vitals import LoadProgress, Vitals
from llamaweb.lib.clock import SystemClock
from llamaweb.lib.errors import UnavailableError

log = logging.getLogger(__name__)

DRAIN_S = 3.0  # running sequences get this long to end after SIGTERM; the rest is handed back
DRAIN_LOOK_S = 0.05


class Worker:
    """One engine process around one loaded model. `serve` runs in the calling thread."""

    def __init__(self, spec: EngineSpec, queue: Queue, config: QueueConfig) -> None:
        self._spec = spec
        self._queue = queue
        self._running = RunningSet()
        self._engine: StepEngine[Any] | None = None
        self._loop: Loop | None = None
        self._drain = threading.Event()
        self._is_patient = False
        self._trouble = ""
        self._seen_progress = 0
        self._vitals = Vitals()
        self._heartbeat = Heartbeat(
            model=spec.model,
            engine_id=spec.engine_id,
            queue=queue,
            running=self._running,
            clock=SystemClock(),
            interval_s=config.heartbeat_s,
            hand_over=lambda order: self._loop.hand_over(order) if self._loop else None,
            progress=self._progress,
            info=self._info,
        )
        self._load_progress = LoadProgress(
            beat=self._heartbeat.now, is_wanted=lambda: not self._drain.is_set()
        )

    def drain(self, *, patient: bool = False) -> None:
        """Claim nothing more, end what runs or loads, then let `serve` return. Safe in a signal
        handler.

        `patient`: what runs gets all the time that its own deadline gives it, until `drain` is
        called again without.
        """
        self._is_patient = patient
        self._drain.set()

    def serve(self) -> None:
        """Load the model and serve until drained.

        Raises:
            FailedError, InvalidError: the model can't be served as the spec says.
        """
        self._heartbeat.start()
        started_ts = time.monotonic()
        try:
            engine, pipeline = build_serving(self._spec, self._load_progress.tell)
        except LoadStoppedError:
            log.info("model %s: its load was stopped", self._spec.model)
            self._heartbeat.stop()
            return
        self._engine = engine
        log.info("model %s loaded in %.1f s", self._spec.model, time.monotonic() - started_ts)
        try:
            self._serve(engine, pipeline)
        finally:
            pipeline.close()
            self._heartbeat.stop()
            engine.close()

    def _serve(self, engine: StepEngine[Any], pipeline: Pipeline) -> None:
        outlet = Outlet(
            model=self._spec.model,
            engine_id=self._spec.engine_id,
            queue_=self._queue,
            running=self._running,
            on_stale=lambda generation_id, epoch: loop.hand_over(Drop(generation_id, epoch)),
            on_ended=lambda: intake.look(),
        )
        loop = self._loop = Loop(engine, outlet)
        intake = Intake(
            model=self._spec.model,
            engine_id=self._spec.engine_id,
            queue=self._queue,
            pipeline=pipeline,
            running=self._running,
            outlet=outlet,
            num_slots=engine.free_slots,
            hand_over=loop.hand_over,
            on_control=self._heartbeat.now,
        )
        outlet.start()
        self._heartbeat.state = "ready"
        if isinstance(engine, RemoteEngine):
            engine.attach(on_work=lambda: loop.hand_over(Wake()), on_trouble=self._say_trouble)
        self._heartbeat.now()
        intake.start()
        threading.Thread(target=self._drain_then_stop, args=(intake, loop), daemon=True).start()
        loop.run()
        outlet.stop()
        self._hand_back(engine)

    def _drain_then_stop(self, intake: Intake, loop: Loop) -> None:
        self._drain.wait()
        log.info("draining %d sequences", len(self._running))
        intake.stop()
        self._heartbeat.state = "draining"  # whoever reads it knows that nothing more is taken
        self._heartbeat.now()
        hurried_s = 0.0
        while len(self._running) and hurried_s < DRAIN_S:
            time.sleep(DRAIN_LOOK_S)
            hurried_s = 0.0 if self._is_patient else hurried_s + DRAIN_LOOK_S
        loop.stop()

    def _hand_back(self, engine: StepEngine[Any]) -> None:
        """Give the unfinished leases back unharmed; what was computed is written already."""
        for running in self._running:
            generation_id = running.claim.request.generation_id
            engine.drop(generation_id)
            try:
                self._queue.release(
                    self._spec.model, self._spec.engine_id, generation_id, running.claim.epoch
                )
            except UnavailableError:
                log.warning("redis is away: the leases end by themselves")
                return

    def _say_trouble(self, reason: str) -> None:
        """Be ready or not, as the engine finds out; it goes on taking requests and answers each."""
        self._trouble = reason
        if not self._drain.is_set():
            self._heartbeat.state = "starting" if reason else "ready"
        self._heartbeat.now()

    def _progress(self) -> tuple[int, bool]:
        """Steps, and whether one is waited for; nobody waits for one that got on since the last
        beat."""
        if self._loop is None:
            return 0, False
        progress = self._engine.progress if isinstance(self._engine, LongSteps) else 0
        gets_on = progress != self._seen_progress
        self._seen_progress = progress
        return self._loop.steps, self._loop.is_stepping and not gets_on

    def _info(self) -> Mapping[str, float | int | str]:
        if self._engine is None:
            return {**self._vitals.of({}), **self._load_progress.info()}
        stats, adapters = self._engine.stats(), self._engine.adapters
        return {
            **stats,
            **self._vitals.of(stats),
            "max_context": self._engine.max_context,
            "num_slots": self._spec.num_slots,
            "engine_class": self._spec.engine_class,
            "slots": encode_slot_uses(slot_uses(self._running)),
            **({"adapters": told(adapters)} if adapters else {}),
            **({"reason": self._trouble} if self._trouble else {}),
        }


def queue_config(spec: EngineSpec) -> QueueConfig:
    """The queue's bounds as the supervisor sent them."""
    config = QueueConfig()
    for name, value in spec.queue:
        kind = type(getattr(config, name))
        config = replace(config, **{name: kind(value)})
    return config
