"""One model config on this host: its trial, its process, its restarts, its watchdog."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from inference.models import ModelConfig
from inference.protocol.reasons import NO_REASON, Reason, reason, reason_info
from inference.protocol.spec import EXIT_UNSERVABLE
from inference.queues.contract import SUPERVISOR_ID, Beat, EngineStatus, Queue
from inference.supervisor.child import text_of
from inference.supervisor.credentials import engine_redis_url
from inference.supervisor.engine_process import EngineProcess
from inference.supervisor.machine import this_machine
from inference.supervisor.placement import State
from inference.supervisor.policy import Restart, after_exit, after_ready, exit_cause
from inference.supervisor.specs import Tuning, engine_spec
from inference.supervisor.trial_process import TrialProcess, TrialSeat
from inference.supervisor.tuning import (
    Question,
    forbid_extra_bufts,
    question_of,
    trial_done,
    trial_failed,
    trial_order,
    tuning_find,
)
from llamaweb.lib.errors import FailedError

log = logging.getLogger(__name__)

MISSING_FILE_RETRY_S = 2.0
SEAT_RETRY_S = 1.0
WATCHDOG_LOOKS = 60  # looks (one a second) without a step or a sign of life: it is killed
STOP_S = 6.0  # an engine that hasn't drained by then is killed
KILL_S = 2.0
DRAIN_S = 2 * 3600.0  # what runs has a deadline of its own; an engine that outlives all is killed
RENEW_S = 60.0  # before a restart what runs gets so long; the rest goes on in the next engine
TOLD_LINES = 12  # of the log of an engine that ended badly
NO_FACTS: Mapping[str, int | str] = {}
TRIED = "llama"  # the engine class whose models are tried and measured


@dataclass(frozen=True, slots=True)
class _Trial:
    """A trial that goes on: what it is to find out, and its process."""

    question: Question
    process: TrialProcess


class SupervisedEngine:
    """Keeps one engine process alive while it has a place in memory; every method returns soon but
    `wait_end`. Before the first process comes a trial, where this machine doesn't know the model.

    `ready_ts`: when its engine became ready. `shares`: as `place` was told. `log_tail`: the last
    words of one that ended badly. `counts`: `loads`, `evictions` and `load_failures` so far.
    """

    def __init__(
        self, config: ModelConfig, queue: Queue, seat: TrialSeat, *, is_placed: bool = True
    ) -> None:
        self.config = config
        self.restart = Restart()
        self.ready_ts = 0.0
        self.shares: tuple[int, ...] = ()
        self.log_tail: tuple[str, ...] = ()
        self.counts = {"loads": 0, "evictions": 0, "load_failures": 0}
        self._is_placed = is_placed
        self._is_ready = False
        self._leaves_ts: float | None = None
        self._renews_ts: float | None = None
        self._queue = queue
        self._seat = seat
        self._process: EngineProcess | None = None
        self._trial: _Trial | None = None
        self._waits_for = ""  # what comes before its start
        self._start_ts = 0.0
        self._steps = -1
        self._looks = 0
        self._ends_ts: float | None = None
        self._is_hurried = False

    @property
    def is_running(self) -> bool:
        """Whether a process lives."""
        return self._process is not None or self._trial is not None

    @property
    def has_engine(self) -> bool:
        """Whether an engine lives, which tells about itself."""
        return self._process is not None

    @property
    def pids(self) -> tuple[int, ...]:
        """Of its processes."""
        trial = self._trial.process if self._trial is not None else None
        return tuple(process.pid for process in (self._process, trial) if process is not None)

    @property
    def is_draining(self) -> bool:
        """Whether it ends once what runs has ended."""
        return self._ends_ts is not None and not self._is_hurried

    @property
    def unservable_reason(self) -> str | None:
        """Why nothing can serve the model, if that is so."""
        return self.restart.reason if self.restart.is_unservable and not self.is_running else None

    @property
    def state(self) -> State:
        """What it does with its place in memory; "loading" also between a crash and the start."""
        if self.is_running and (self._leaves_ts is not None or self._ends_ts is not None):
            return "draining"
        if self.is_running and self._renews_ts is not None:
            return "renewing"
        if not self._is_placed:
            return "off"
        return "ready" if self._is_ready else "loading"

    @property
    def doing(self) -> str:
        """What "loading" is now, in words behind "is"; "" for just that."""
        if self._trial is not None:
            return "being measured" if self._trial.process.order.open else "being tried"
        return "" if self.is_running or not self.restart.reason else f"down: {self.restart.reason}"

    def place(self, shares: tuple[int, ...] = ()) -> None:
        """Let it start: there is room for it. `shares`: as in `Plan`."""
        self._is_placed, self.shares = True, shares

    def leave(self, now: float, *, is_evicted: bool = False) -> None:
        """Give its place up when what runs has ended, at once if it isn't ready; `place` brings it
        back. What it holds till then is what `state` says."""
        if self._leaves_ts is not None:
            return
        self.counts["evictions"] += is_evicted
        self._kill_trial()
        if self._process is None:
            self._leaves_ts = now if self._trial is not None else None
            self._is_placed = False
        elif self._is_ready:
            self._leaves_ts = now + DRAIN_S
            self._process.drain()
        else:
            self._leaves_ts = now + STOP_S
            self._process.terminate()

    def renew(self, now: float) -> None:
        """Restart its engine in its place: what runs gets `RENEW_S`, what is left goes on in the
        next one. One that is down is started without waiting."""
        if self._process is None:
            self._start_ts = now
            self.restart = replace(self.restart, is_unservable=False, failed_loads=0)
        elif self._leaves_ts is None and self._ends_ts is None and self._renews_ts is None:
            self._renews_ts = now + (RENEW_S if self._is_ready else 0.0)
            self._process.drain()

    def observe(self, statuses: Sequence[EngineStatus], now: float) -> None:
        """Learn from the heartbeats whether its engine is ready."""
        if self._process is None or self._is_ready:
            return
        own_id = self._process.spec.engine_id
        if any(s.engine_id == own_id and s.state in ("ready", "draining") for s in statuses):
            self._is_ready, self.ready_ts = True, now
            self.restart, self.log_tail = after_ready(self.restart), ()

    def look_after(self, now: float) -> None:
        """Start it when it is due; when it ended, say why and when it starts again."""
        if self.restart.is_unservable and now >= self._start_ts and not self._is_placed:
            self.restart = replace(self.restart, is_unservable=False)  # who asks may try again
        if self._process is not None:
            self._look_at_engine(self._process, now)
        elif self._trial is not None:
            self._look_at_trial(self._trial, now)
        elif now >= self._start_ts and self._ends_ts is None and self._is_placed:
            self._start(now)

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

    def tell(self, why: Reason = NO_REASON, *, facts: Mapping[str, int | str] = NO_FACTS) -> None:
        """Let /health and administrators see what the supervisor knows. `why`: it has no place."""
        state = self.state
        known = reason(self._waits_for) or (NO_REASON if state in ("loading", "ready") else why)
        told = NO_REASON if state == "ready" else known or reason(self.restart.reason) or why
        self._queue.beat(
            self.config.name,
            Beat(
                engine_id=SUPERVISOR_ID,
                state="starting" if self.is_running or self._waits_for else "stopped",
                info={
                    **reason_info(told),
                    "failures": self.restart.failures,
                    "log": "\n".join(self.log_tail[-TOLD_LINES:]),
                    "tail": text_of(self._process.log_tail) if self._process is not None else "",
                    **self.counts,
                    **facts,
                },
            ),
        )

    def drain(self, now: float) -> None:
        """Let what runs end, take nothing more, never start it again; `end` makes it hurry."""
        if self._ends_ts is None:
            self._ends_ts = now + DRAIN_S
            self._kill_trial()
            if self._process is not None:
                self._process.drain()

    def end(self, now: float) -> None:
        """Have it end within seconds, never start it again; `look_after` kills it if it doesn't."""
        if not self._is_hurried:
            self._is_hurried = True
            self._ends_ts = now + STOP_S
            self._kill_trial()
            if self._process is not None:
                self._process.terminate()

    def wait_end(self) -> None:
        """Block until an ended engine is gone; raises UnavailableError when Redis went first."""
        if self._trial is not None:
            self._trial.process.wait(KILL_S)
            self._end_trial()
        process = self._process
        if process is None:
            return
        if not process.wait(STOP_S):
            process.kill()
            process.wait(KILL_S)
        self._process = None
        self._gone(process, process.poll() or 0)

    # --- the engine

    def _start(self, now: float) -> None:
        try:
            tuning = self._tuning(now)
            if tuning is None:
                self.tell()
                return
            url = engine_redis_url(self.config.name)
            spec = engine_spec(self.config, redis_url=url, tuning=tuning, shares=self.shares)
        except FailedError as error:
            self._waits_for = ""
            self.restart = Restart(reason=error.message, is_unservable=True)
            self._start_ts = time.monotonic() + MISSING_FILE_RETRY_S
            self._is_placed = False
            self.tell()
            return
        self._waits_for = ""
        self._steps, self._looks = -1, 0
        self._is_ready = False
        self.counts["loads"] += 1
        self._process = EngineProcess(spec)
        log.info("model %s: engine started (pid %d)", self.config.name, self._process.pid)
        self.tell()

    def _look_at_engine(self, process: EngineProcess, now: float) -> None:
        code = process.poll()
        if code is None:
            late_ts = self._renews_ts + STOP_S if self._renews_ts is not None else None
            if any(ts is not None and now > ts for ts in (self._ends_ts, self._leaves_ts, late_ts)):
                process.kill()
            elif self._renews_ts is not None and now > self._renews_ts:
                process.terminate()
            return
        self.observe(self._queue.engines(self.config.name), now)
        held = self._gone(process, code)
        self._process = None
        if self._leaves_ts is not None:
            self._left()
            return
        if self._renews_ts is not None:  # however it ended: that was asked for
            self._renews_ts, self._start_ts, self._is_ready = None, now, False
            return
        self._exited(process, code, now, was_ready=self._is_ready or bool(held))
        self._is_ready = False
        if self._ends_ts is None:
            log.warning("model %s: %s", self.config.name, self.restart.reason)
            self.tell()

    def _left(self) -> None:
        self._leaves_ts = self._renews_ts = None
        self._is_placed = self._is_ready = False
        log.info("model %s: its engine has left", self.config.name)

    def _exited(
        self,
        process: EngineProcess | TrialProcess,
        code: int,
        now: float,
        *,
        was_ready: bool = False,
    ) -> None:
        """What its end means for the next start."""
        restart = after_exit(
            self.restart,
            exit_code=code,
            lived_s=process.lived_s,
            last_line=process.last_line,
            was_ready=was_ready,
        )
        self.log_tail = process.log_tail if code else ()
        self.counts["load_failures"] += not was_ready and code != 0
        if restart.is_unservable or restart.is_short:
            self._is_placed = False  # it takes its turn again, when others have made room
        if self.restart.use_extra_bufts and not restart.use_extra_bufts and self._is_tried:
            forbid_extra_bufts(this_machine())
        self.restart = restart
        self._start_ts = now + restart.delay_s

    def _gone(self, process: EngineProcess, code: int) -> tuple[str, ...]:
        """Its leases end now, returned; only a crash counts as a death."""
        return self._queue.engine_gone(self.config.name, process.spec.engine_id, death=code != 0)

    # --- the trial

    @property
    def _is_tried(self) -> bool:
        return self.config.engine_class == TRIED

    def _tuning(self, now: float) -> Tuning | None:
        """What an engine is to run with; None: that has to be found out first."""
        if not self._is_tried:
            return Tuning(use_extra_bufts=self.restart.use_extra_bufts)
        question = question_of(self.config)
        found = tuning_find(question)
        if found is not None:
            may_use = found.use_extra_bufts and self.restart.use_extra_bufts
            return Tuning(may_use, found.choice)
        if not self._seat.take(self):
            self._waits_for = f"model {self.config.name} waits until another one has been tried"
            self._start_ts = now + SEAT_RETRY_S
            return None
        order = trial_order(question)
        process = TrialProcess(order, file_bytes=question.file_bytes)
        self._trial = _Trial(question, process)
        doing = "measured" if order.open else "tried"
        self._waits_for = f"model {self.config.name} is being {doing} on this machine, once"
        log.info("%s (pid %d)", self._waits_for, process.pid)
        return None

    def _look_at_trial(self, trial: _Trial, now: float) -> None:
        """When it ended, remember what came of it; the engine is due then, or another trial."""
        process = trial.process
        code = process.poll()
        if code is None:
            if process.is_late:
                process.kill()
            return
        if self._leaves_ts is not None:
            self._left()
        elif self._ends_ts is None:
            self._trial_ended(trial, code, now)
        self._end_trial()

    def _trial_ended(self, trial: _Trial, code: int, now: float) -> None:
        process = trial.process
        report = process.report if code == 0 else None
        is_illegal = code == -signal.SIGILL and process.order.spec.use_extra_bufts
        if report is not None:
            trial_done(trial.question, process.order, report)
            log.info("model %s: tried in %.1f s", self.config.name, process.lived_s)
        elif code == EXIT_UNSERVABLE or is_illegal:
            self._exited(process, code, now)
            log.warning("model %s: %s", self.config.name, self.restart.reason)
        else:
            cause = "it took too long" if process.is_late else exit_cause(code)
            trial_failed(trial.question, process.order, f"the measurement failed: {cause}")
            log.warning("model %s: the trial failed (%s)", self.config.name, cause)

    def _kill_trial(self) -> None:
        if self._trial is not None:
            self._trial.process.kill()

    def _end_trial(self) -> None:
        self._trial = None
        self._waits_for = ""
        self._seat.leave(self)
