"""How a model stands: what an administrator wants, and what its engines last said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from inference.protocol.reasons import reason_read
from inference.queues.contract import SUPERVISOR_ID, EngineStatus
from inference.registry.selectors import ModelInfo

Value: TypeAlias = Literal["unloaded", "loading", "loaded", "downloading"]
LOADED_STATES = ("ready", "draining")
LOADING_STATES = ("loading", "starting")


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """`context`: tokens of one request, None unless an engine says it. `reason`: why it isn't
    loaded though it should be, naming no other model; `failed`: it couldn't be. `progress`: as the
    wire has it."""

    value: Value
    failed: bool = False
    reason: str = ""
    context: int | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """As the wire has it."""
        out: dict[str, Any] = {"value": self.value}
        if self.failed:
            out["failed"] = True
        if self.reason:
            out["reason"] = self.reason
        if self.progress:
            out["progress"] = dict(self.progress)
        return out


def status_of(info: ModelInfo, engines: Sequence[EngineStatus]) -> ModelStatus:
    """The status of a model with these heartbeats."""
    heard = [engine for engine in engines if not engine.is_silent]
    ours = [engine for engine in heard if engine.engine_id != SUPERVISOR_ID]
    for engine in ours:
        if engine.state in LOADED_STATES:
            return ModelStatus("loaded", context=int(engine.info.get("max_context", 0)) or None)
    reason = next((reason_read(e.info).hidden for e in heard if e.info.get("reason")), "")
    for engine in (*ours, *heard):  # the supervisor's says the same before an engine's first one
        if engine.state in LOADING_STATES:
            return ModelStatus("loading", reason=reason, progress=_load_progress(engine))
    if not info.is_loaded:
        return ModelStatus("unloaded")
    on_demand = any(engine.info.get("on_demand") for engine in heard)  # then it is no fault
    return ModelStatus("unloaded", failed=bool(reason) and not on_demand, reason=reason)


def _load_progress(engine: EngineStatus) -> dict[str, Any]:
    """Of the one stage there is; nothing where the engine doesn't say it."""
    share = engine.info.get("load_progress")
    if not isinstance(share, int | float):
        return {}
    return {"stages": ["text_model"], "current": "text_model", "value": float(share)}
