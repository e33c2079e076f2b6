"""Whose reasoning an order ends: the owner's, by the models that their key is for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from inference import api, bus
from inference.queues.contract import ReasoningEnd

REPLY, OWNER = "chatcmpl-1", "user:7"


class TwoModels:
    """A queue in which one model writes the reply."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def models(self) -> list[str]:
        return ["first", "second"]

    async def end_reasoning(self, model: str, reply_id: str, owner_key: str) -> ReasoningEnd:
        self.told.append(model)
        is_it = (model, reply_id, owner_key) == ("second", REPLY, OWNER)
        return "ok" if is_it else "unknown"


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> TwoModels:
    made = TwoModels()
    monkeypatch.setattr(bus, "loop_bus", lambda: SimpleNamespace(queue=made))
    return made


@pytest.mark.parametrize(
    ("only", "outcome", "told"),
    [
        ((), "ok", ["first", "second"]),
        (("second", "third"), "ok", ["second"]),
        (("first",), "unknown", ["first"]),
        (("third",), "unknown", []),
    ],
)
async def test_only_models_that_the_key_is_for_hear_of_it(
    queue: TwoModels, only: tuple[str, ...], outcome: ReasoningEnd, told: list[str]
) -> None:
    assert await api.reasoning_end(REPLY, OWNER, only) == outcome
    assert queue.told == told
