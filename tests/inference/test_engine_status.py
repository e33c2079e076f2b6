"""Whether a model is served, and what is said of one that isn't in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from inference import api
from inference.api import EngineSummary, ModelInfo
from inference.protocol.reasons import Other, reason, reason_info
from inference.queues.contract import EngineStatus

Tell = Callable[..., None]
WAITS = "model m waits for memory: a is answering 2 requests"


def status(engine_id: str, state: str, *, age_s: float = 0.1, **info: Any) -> EngineStatus:
    return EngineStatus(engine_id, state, 0, 0, age_s, False, info)


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch) -> Tell:
    def tell(*found: EngineStatus) -> None:
        async def resolve(_name: str | None) -> ModelInfo:
            return ModelInfo("m", 0, 4, "mock")

        async def engine_list(_model: str) -> tuple[EngineStatus, ...]:
            return found

        monkeypatch.setattr(api, "model_resolve", resolve)
        monkeypatch.setattr(api, "engine_list", engine_list)

    return tell


async def test_a_model_that_waits_for_memory_says_so(tell: Tell) -> None:
    told = status("supervisor", "stopped", reason=WAITS, on_demand=1)
    tell(told)
    assert await api.engine_status() == EngineSummary(False, WAITS, "m", on_demand=True)
    tell(status("m-1", "draining"), told)
    assert await api.engine_status() == EngineSummary(False, WAITS, "m", on_demand=True)


async def test_one_that_failed_is_not_to_be_had(tell: Tell) -> None:
    tell(status("supervisor", "stopped", reason="no such file", on_demand=0))
    assert await api.engine_status() == EngineSummary(False, "no such file", "m")


async def test_everybody_is_told_without_the_names_of_other_models(tell: Tell) -> None:
    why = reason("model m waits for memory: ", Other("secret"), " is loading")
    tell(status("supervisor", "stopped", on_demand=1, **reason_info(why)))
    found = await api.engine_status()
    assert found.reason == "model m waits for memory: another model is loading"


async def test_what_was_told_long_ago_says_nothing(tell: Tell) -> None:
    tell(status("supervisor", "stopped", age_s=60, reason=WAITS, on_demand=1))
    found = await api.engine_status()
    assert (found.on_demand, found.reason) == (False, "no engine has started yet")


async def test_a_ready_engine_is_ready_whatever_else_is_told(tell: Tell) -> None:
    tell(status("m-1", "ready", max_context=512), status("supervisor", "starting", on_demand=0))
    assert await api.engine_status() == EngineSummary(True, "", "m", 512)
