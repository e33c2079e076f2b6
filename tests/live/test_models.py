"""Models over the live connection: what each may choose, told when it changes."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async

from conversations.edge.live import board
from inference.models import ModelConfig
from inference.protocol.reasons import Other, reason, reason_info
from inference.queues.contract import SUPERVISOR_ID, Beat
from tests.conversations.driving import Engine
from tests.live.clients import Socket, Sockets

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "LOOK_S", 0.05)
    monkeypatch.setattr(board, "LOADING_LOOK_S", 0.05)
    monkeypatch.setattr(board, "ROWS_S", 0.1)


@sync_to_async
def beat(engine: Engine, model: str, state: Any, *, name: str = "e", **info: Any) -> None:
    engine.queue.beat(model, Beat(name, state, info=info))


async def stands(socket: Socket, name: str, state: str, progress: float | None = None) -> None:
    """Until the view has it so."""
    await socket.see(
        lambda view: (
            name in view.models
            and view.models[name]["state"] == state
            and view.models[name]["load_progress"] == progress
        )
    )


async def test_a_model_that_is_loaded_while_one_looks(
    sockets: Sockets, alice: Any, engine: Engine
) -> None:
    socket = await sockets.greeted(alice)
    await stands(socket, "mock", "unknown")
    await beat(engine, "mock", "loading")
    await stands(socket, "mock", "loading")
    await beat(engine, "mock", "loading", load_progress=0.5)
    await stands(socket, "mock", "loading", 0.5)
    await beat(engine, "mock", "ready", max_context=2048)
    await stands(socket, "mock", "loaded")
    assert socket.view.models["mock"]["is_ready"]
    assert socket.view.models["mock"]["max_context"] == 2048


async def test_only_what_changed_is_told_again(
    sockets: Sockets, alice: Any, engine: Engine
) -> None:
    await ModelConfig.objects.acreate(name="other", engine_class="mock")
    socket = await sockets.greeted(alice)
    first = await socket.until(lambda frame: frame["type"] == "models")
    assert (first["names"], len(first["models"])) == (["mock", "other"], 2)
    await beat(engine, "other", "ready")
    second = await socket.until(lambda frame: frame["type"] == "models")
    assert second["names"] == ["mock", "other"]
    assert [model["name"] for model in second["models"]] == ["other"]


async def test_each_sees_their_own_and_no_names_of_others(
    sockets: Sockets, alice: Any, bob: Any, engine: Engine
) -> None:
    secret = await ModelConfig.objects.acreate(
        name="secret", engine_class="mock", is_restricted=True
    )
    await secret.users.aadd(bob)
    why = reason("model mock waits for memory: ", Other("secret"), " is loading")
    await beat(engine, "mock", "stopped", name=SUPERVISOR_ID, on_demand=1, **reason_info(why))
    hers, his = await sockets.greeted(alice), await sockets.greeted(bob)
    await stands(hers, "mock", "unloaded")
    await stands(his, "mock", "unloaded")
    assert list(hers.view.models) == ["mock"]
    assert list(his.view.models) == ["mock", "secret"]
    assert "another model is loading" in hers.view.models["mock"]["reason"]
    assert "secret is loading" in his.view.models["mock"]["reason"]
    assert not any("secret" in str(frame) for frame in hers.frames)


async def test_access_that_is_taken_away_and_a_default_that_moves(
    sockets: Sockets, alice: Any, engine: Engine
) -> None:
    await ModelConfig.objects.acreate(name="other", engine_class="mock")
    socket = await sockets.greeted(alice)
    await socket.see(lambda view: list(view.models) == ["mock", "other"])
    assert socket.view.models["mock"]["is_default"]
    await ModelConfig.objects.filter(name="mock").aupdate(is_restricted=True)
    await socket.see(lambda view: list(view.models) == ["other"])
    assert socket.view.models["other"]["is_default"]  # what she gets without a name now
