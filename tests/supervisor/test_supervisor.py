"""The loop of the supervisor: an error in one part ends no other."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kombu.exceptions import OperationalError as BrokerError

from inference.management.commands import runsupervisor
from inference.models import ModelConfig
from inference.protocol.requests import GenerateRequest, TextPrompt
from inference.queues.memory import MemoryQueue
from inference.supervisor import supervisor as module
from inference.supervisor.housekeeping import Housekeeping
from inference.supervisor.supervisor import Supervisor
from llamaweb.lib.errors import UnavailableError
from tests.supervisor.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    monkeypatch.setattr(module, "SupervisedEngine", FakeEngine)
    monkeypatch.setattr(module, "renew_engine_users", lambda: None)
    monkeypatch.setattr(module, "close_old_connections", lambda: None)
    queue = MemoryQueue()
    return Supervisor(queue, Housekeeping(queue, lambda *_: None))


def engines(supervisor: Supervisor) -> dict[str, FakeEngine]:
    return {engine.config.name: engine for engine in supervisor._engines.values()}  # type: ignore


def submit(supervisor: Supervisor, model: str) -> None:
    now = time.time()
    supervisor._queue.submit(
        GenerateRequest(
            "g", model, "user:1", "user:1", TextPrompt("x"), 1, now, now + 99, keep=True
        )
    )


def test_a_broken_engine_leaves_the_others_alone(supervisor: Supervisor) -> None:
    for name in ("a", "b"):
        ModelConfig.objects.create(name=name)
    supervisor._tick(0.0)
    engines(supervisor)["a"].broken = True
    for now in range(1, 6):
        supervisor._tick(float(now))
    assert engines(supervisor)["b"].looks == 6
    assert not any(engine.asked for engine in engines(supervisor).values())


def test_what_waits_for_a_model_that_is_gone_ends(supervisor: Supervisor) -> None:
    config = ModelConfig.objects.create(name="a")
    supervisor._tick(0.0)
    submit(supervisor, "a")
    supervisor._tick(3.0)
    assert supervisor._queue.load("a").waiting == 1
    config.is_enabled = False
    config.save()
    supervisor._tick(6.0)
    assert supervisor._queue.load("a").waiting == 0
    status = supervisor._queue.status("a", "g")
    assert status is not None
    assert status.state == "ended"


def test_a_changed_config_gets_a_new_engine_after_the_old_one(supervisor: Supervisor) -> None:
    config = ModelConfig.objects.create(name="a")
    supervisor._tick(0.0)
    old = engines(supervisor)["a"]
    config.num_slots = 2
    config.save()
    supervisor._tick(3.0)
    assert old.asked == ["end"]
    assert engines(supervisor) == {}
    old.is_running = False
    supervisor._tick(6.0)
    supervisor._tick(9.0)
    assert engines(supervisor)["a"].config.num_slots == 2


def test_a_broker_that_is_away_is_said_as_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_args: Any, **_kwargs: Any) -> None:
        raise BrokerError("away")

    monkeypatch.setattr(runsupervisor.current_app, "send_task", away)
    with pytest.raises(UnavailableError):
        runsupervisor.send_task("generation_finalise", "g")
    runsupervisor.send_task("os.system", "g")  # not in the allow-list: nothing is sent
