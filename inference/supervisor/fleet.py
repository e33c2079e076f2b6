"""Gives the engines of this host their places in memory, as `placement` decides."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Sequence

from inference.models import ModelConfig
from inference.protocol.reasons import NO_REASON, reason
from inference.queues.contract import Queue
from inference.supervisor.budget import Need, read_need, read_room, takes_place
from inference.supervisor.engine import SupervisedEngine
from inference.supervisor.gpus import DevicesChild, Gpus
from inference.supervisor.housekeeping import Housekeeping
from inference.supervisor.placement import Model, Plan, Room, plan

log = logging.getLogger(__name__)

ESTIMATE_EVERY_S = 10.0  # a measurement may have changed what a model needs
NOTHING = Need(0, 0)
ON_DEMAND = "isn't in memory; the next request has it loaded"
ASKING = "waits for GPU memory: the driver is asked how much there is"


class Fleet:
    """Keeps what has to be known from one look to the next: when a model was last asked for, and
    how much it needs."""

    def __init__(
        self,
        queue: Queue,
        housekeeping: Housekeeping,
        *,
        gpus: Gpus | None = None,
        room: Callable[[Iterable[int]], Room] | None = None,
        need: Callable[[ModelConfig], Need] | None = None,
    ) -> None:
        self._queue = queue
        self._housekeeping = housekeeping
        self._gpus = gpus or Gpus(DevicesChild)
        self._read_room = room or functools.partial(read_room, gpus=self._gpus)
        self._read_need = need or functools.partial(read_need, gpus=self._gpus)
        self._needs: dict[int, tuple[float, Need]] = {}
        self._used_ts: dict[int, float] = {}
        self._room = Room(0, None)
        self._plan = Plan()
        self._used_bytes = self._used_gpu_bytes = 0

    def place(
        self,
        engines: Sequence[SupervisedEngine],
        ending: Sequence[SupervisedEngine],
        now: float,
    ) -> None:
        """Start whom there is room for, have others leave; `ending` engines only take room.

        Raises:
            UnavailableError: Redis can't be reached; nothing changes then.
        """
        self._forget({engine.config.pk for engine in engines})
        models = [self._model(engine, now) for engine in self._in_order(engines)]
        models += [self._left_over(engine, now) for engine in ending]
        self._gpus.look(is_used=any(any(m.gpu_bytes) and m.state != "off" for m in models))
        pids = [pid for engine in (*engines, *ending) for pid in engine.pids]
        self._room = self._read_room(pids)
        self._plan = plan(models, self._room, now)
        held = [model for model in models if model.state != "off"]
        self._used_bytes = sum(model.need_bytes for model in held)
        self._used_gpu_bytes = sum(sum(model.gpu_bytes) for model in held)
        by_name = {engine.config.name: engine for engine in engines}
        for name, whom in self._plan.leave:
            if name in by_name:
                log.info("model %s: its engine leaves for model %s", name, whom)
                by_name[name].leave(now, is_evicted=True)
        for name in self._plan.start:
            by_name[name].place(self._plan.shares.get(name, ()))
        for model in models:
            if model.num_waiting and model.name in self._plan.refused:
                self._housekeeping.refuse_for(model.name, self._plan.refused[model.name])

    def tell(self, engine: SupervisedEngine) -> None:
        """Let /health, chats, administrators and metrics see how the model stands."""
        need = self._needs.get(engine.config.pk, (0.0, NOTHING))[1]
        why = self._plan.reasons.get(engine.config.name, NO_REASON)
        is_off = engine.state == "off"
        rests = engine.restart.is_unservable or engine.config.name in self._plan.refused
        if is_off and not why and not rests:
            why = reason(f"model {engine.config.name} ", ASKING if need.is_open else ON_DEMAND)
        engine.tell(
            why,
            facts={
                "on_demand": int(is_off and not rests),
                "memory_need_bytes": need.most,
                "memory_budget_bytes": self._room.budget_bytes,
                "memory_used_bytes": self._used_bytes,
                "gpu_memory_need_bytes": sum(need.gpu),
                "gpu_memory_budget_bytes": sum(self._room.gpu_budgets),
                "gpu_memory_used_bytes": self._used_gpu_bytes,
                "devices": self._gpus.line,
            },
        )

    def _model(self, engine: SupervisedEngine, now: float) -> Model:
        config, load = engine.config, self._queue.load(engine.config.name)
        need = self._need(config, now)
        engine.observe(self._queue.engines(config.name) if engine.has_engine else (), now)
        if load.running or load.waiting:
            self._used_ts[config.pk] = now
        return Model(
            name=config.name,
            need_bytes=need.most,
            least_bytes=need.least,
            gpu_bytes=_gpu_bytes(engine, need),
            is_spread=need.is_spread,
            state=engine.state,
            is_wanted=config.wanted == ModelConfig.Wanted.LOADED,
            is_pinned=config.is_pinned,
            takes_place=takes_place(config),
            num_running=load.running,
            num_waiting=load.waiting - load.waiting_background,
            num_background=load.waiting_background,
            waits_since=now - load.oldest_wait_s,
            ready_since=engine.ready_ts,
            used_at=self._used_ts.get(config.pk, 0.0),
            is_resting=engine.restart.is_unservable or need.is_open,
            is_short=engine.restart.is_short,
            doing=engine.doing,
        )

    def _left_over(self, engine: SupervisedEngine, now: float) -> Model:
        config = engine.config
        need = self._need(config, now)
        return Model(
            config.name,
            need.most,
            gpu_bytes=_gpu_bytes(engine, need),
            state="draining",
            takes_place=takes_place(config),
        )

    def _need(self, config: ModelConfig, now: float) -> Need:
        read_ts, need = self._needs.get(config.pk, (None, NOTHING))
        if read_ts is None or need.is_open or now - read_ts >= ESTIMATE_EVERY_S:
            need = self._read_need(config)
            self._needs[config.pk] = (now, need)
        return need

    def _forget(self, known: set[int]) -> None:
        for table in (self._needs, self._used_ts):
            for pk in [pk for pk in table if pk not in known]:
                del table[pk]

    @staticmethod
    def _in_order(engines: Iterable[SupervisedEngine]) -> list[SupervisedEngine]:
        """The default model's first, then by name."""
        return sorted(engines, key=lambda e: (not e.config.is_default, e.config.name))


def _gpu_bytes(engine: SupervisedEngine, need: Need) -> tuple[int, ...]:
    """Where it was told to lie, or else as it will by itself."""
    return need.gpu if engine.state == "off" else engine.shares or need.gpu
