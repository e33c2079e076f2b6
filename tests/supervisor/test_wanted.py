"""What an administrator wants of a model is what the supervisor brings about."""

from __future__ import annotations

import time
from typing import Any

import pytest

from inference.models import ModelConfig
from inference.protocol.events import Failed
from inference.protocol.requests import GenerateRequest, TextPrompt
from inference.queues.contract import START
from inference.queues.memory import MemoryQueue
from inference.registry.wanted import model_drain, model_load, model_restart, model_unload
from inference.supervisor import supervisor as module
from inference.supervisor.housekeeping import Housekeeping
from inference.supervisor.supervisor import Supervisor
from tests.supervisor.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    monkeypatch.setattr(module, "SupervisedEngine", FakeEngine)
    monkeypatch.setattr(module, "renew_engine_users", lambda: None)
    monkeypatch.setattr(module, "close_old_connections", lambda: None)
    queue = MemoryQueue()
    return Supervisor(queue, Housekeeping(queue, lambda *_: None))


@pytest.fixture
def config() -> ModelConfig:
    return ModelConfig.objects.create(name="a", engine_class="mock", wanted="loaded")


def engine_of(supervisor: Supervisor) -> FakeEngine:
    (engine,) = [*supervisor._engines.values(), *supervisor._ending]
    return engine  # type: ignore[return-value]


def submit(supervisor: Supervisor) -> None:
    now = time.time()
    supervisor._queue.submit(
        GenerateRequest("g", "a", "user:1", "user:1", TextPrompt("x"), 1, now, now + 99, keep=True)
    )


def tick(supervisor: Supervisor, now: float) -> None:
    supervisor._tick(now)


def test_unloading_ends_the_engine_and_loading_brings_one_back(
    supervisor: Supervisor, config: ModelConfig
) -> None:
    tick(supervisor, 0.0)
    old = engine_of(supervisor)
    model_unload(config=config)
    tick(supervisor, 1.0)
    assert old.asked == ["end"]
    old.is_running = False
    tick(supervisor, 2.0)
    assert not supervisor._engines
    assert not supervisor._ending
    model_load(config=config)
    tick(supervisor, 3.0)
    assert engine_of(supervisor) is not old


def test_draining_waits_until_it_is_told_to_hurry(
    supervisor: Supervisor, config: ModelConfig
) -> None:
    tick(supervisor, 0.0)
    engine = engine_of(supervisor)
    model_drain(config=config)
    for now in (1.0, 2.0, 3.0):
        tick(supervisor, now)
    assert engine.asked == ["drain"]
    model_unload(config=config)
    tick(supervisor, 4.0)
    assert engine.asked == ["drain", "end"]


def test_loading_again_waits_for_the_drain(supervisor: Supervisor, config: ModelConfig) -> None:
    tick(supervisor, 0.0)
    engine = engine_of(supervisor)
    model_drain(config=config)
    tick(supervisor, 1.0)
    model_load(config=config)
    submit(supervisor)
    tick(supervisor, 2.0)
    assert engine.asked == ["drain"]
    assert supervisor._queue.load("a").waiting == 1
    engine.is_running = False
    tick(supervisor, 3.0)
    tick(supervisor, 4.0)
    assert engine_of(supervisor) is not engine


@pytest.mark.parametrize("act", [model_unload, model_drain])
def test_what_waits_is_told_that_the_model_is_not_loaded(
    supervisor: Supervisor, config: ModelConfig, act: Any
) -> None:
    tick(supervisor, 0.0)
    act(config=config)
    submit(supervisor)
    tick(supervisor, 1.0)
    read = supervisor._queue.read("a", "g", START)
    end = read.entries[-1].event
    assert isinstance(end, Failed)
    assert (end.code, end.message) == ("model_unavailable", "model a is not loaded")


def test_choosing_the_default_restarts_nothing(supervisor: Supervisor, config: ModelConfig) -> None:
    from inference.registry.config_services import model_default_set

    tick(supervisor, 0.0)
    engine = engine_of(supervisor)
    model_default_set(config=config)
    tick(supervisor, 1.0)
    assert engine_of(supervisor) is engine
    assert engine.asked == []


def test_a_restart_that_is_asked_for_happens_once(
    supervisor: Supervisor, config: ModelConfig
) -> None:
    model_restart(config=config)  # before it ran: nothing to do
    tick(supervisor, 0.0)
    engine = engine_of(supervisor)
    tick(supervisor, 1.0)
    assert engine.asked == []
    model_restart(config=config)
    for now in (2.0, 3.0):
        tick(supervisor, now)
    assert (engine.asked, engine_of(supervisor)) == (["renew"], engine)
