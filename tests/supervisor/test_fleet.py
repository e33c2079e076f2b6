"""What requests wait for is brought into memory, and what has to go for it drains."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from inference.models import ModelConfig
from inference.protocol.events import Failed
from inference.protocol.requests import GenerateRequest, TextPrompt
from inference.queues.contract import START
from inference.queues.memory import MemoryQueue
from inference.registry.memory import Estimate, Part
from inference.registry.wanted import model_load, model_on_demand, model_pin_set
from inference.supervisor import supervisor as module
from inference.supervisor.budget import Need, read_need, read_room, room_of
from inference.supervisor.fleet import Fleet
from inference.supervisor.housekeeping import Housekeeping
from inference.supervisor.placement import MIN_RESIDENCE_S, PATIENCE_S, Room
from inference.supervisor.supervisor import Supervisor
from llamaweb.accounts.models import AuditEvent
from llamaweb.lib.clock import ManualClock
from llamaweb.lib.ram import Ram
from tests.supervisor.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db
GIB = 1 << 30


class World:
    """A supervisor with room for one model of a GiB; its clock and the queue's go together."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.queue = MemoryQueue(clock=self.clock)
        housekeeping = Housekeeping(self.queue, lambda *_: None)
        self.supervisor = Supervisor(self.queue, housekeeping)
        self.needs: dict[str, int] = {}
        self.supervisor._fleet = Fleet(
            self.queue,
            housekeeping,
            room=lambda _pids: Room(GIB, GIB),
            need=self._need,
        )
        self.now = 1000.0
        self.ids = (f"g{number}" for number in itertools.count())

    def _need(self, config: ModelConfig) -> Need:
        need = self.needs.get(config.name, GIB)
        return Need(need, need)

    def tick(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.clock.advance(seconds)
        self.supervisor._tick(self.now)

    def engine(self, name: str) -> FakeEngine:
        found = [e for e in self.supervisor._engines.values() if e.config.name == name]
        return found[0]  # type: ignore[return-value]

    def ask(self, model: str, *, lane: Any = "interactive", seconds: float = 900) -> str:
        gid, now = next(self.ids), self.clock.wall()
        self.queue.submit(
            GenerateRequest(
                gid, model, "user:1", "user:1", TextPrompt("x"), 1, now, now + seconds,
                keep=True, lane=lane,
            )
        )  # fmt: skip
        return gid

    def left(self, name: str) -> None:
        """Its engine has ended."""
        assert self.engine(name).state == "draining"
        self.engine(name).state = "off"

    def end_of(self, model: str, gid: str) -> Failed:
        end = self.queue.read(model, gid, START).entries[-1].event
        assert isinstance(end, Failed)
        return end


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(module, "SupervisedEngine", FakeEngine)
    monkeypatch.setattr(module, "renew_engine_users", lambda: None)
    monkeypatch.setattr(module, "close_old_connections", lambda: None)
    for name, wanted in (("a", "loaded"), ("b", "auto")):
        ModelConfig.objects.create(name=name, engine_class="mock", wanted=wanted)
    made = World()
    made.tick()
    return made


def test_what_is_wanted_is_loaded_and_what_is_on_demand_waits(world: World) -> None:
    assert (world.engine("a").state, world.engine("b").state) == ("ready", "off")
    assert world.engine("b").told[-1] == "model b isn't in memory; the next request has it loaded"


def test_a_request_swaps_and_says_what_it_waits_for(world: World) -> None:
    world.ask("a")
    (claim,) = world.queue.claim("a", "e", slots=1, idle=True)
    world.tick(MIN_RESIDENCE_S)
    world.ask("b")
    world.tick()
    assert world.engine("a").asked == []
    assert world.engine("b").told[-1] == ("model b waits for memory: a is answering 1 request")
    world.queue.release("a", "e", claim.request.generation_id, claim.epoch)
    world.queue.cancel("a", claim.request.generation_id, "user")
    world.tick()
    assert world.engine("a").asked == ["leave"]
    assert world.engine("b").told[-1] == "model b waits for memory: a is being unloaded"
    world.left("a")
    world.tick()
    assert world.engine("b").state == "ready"
    assert world.engine("a").told[-1] == "model a waits for memory: b is loading"


def test_layers_on_gpus_need_room_there(world: World) -> None:
    fleet = world.supervisor._fleet
    looks: list[bool] = []
    fleet._gpus = SimpleNamespace(line="[]", look=lambda *, is_used: looks.append(is_used))  # type: ignore
    world.tick()
    fleet._read_room = lambda _pids: Room(9 * GIB, 9 * GIB, 0, (GIB,), (GIB,))
    fleet._read_need = lambda _config: Need(GIB, GIB, gpu=(GIB,))
    fleet._needs.clear()
    world.ask("a")
    world.queue.claim("a", "e", slots=1, idle=True)
    world.ask("b")
    world.tick(MIN_RESIDENCE_S)
    assert world.engine("b").told[-1] == "model b waits for GPU memory: a is answering 1 request"
    assert world.engine("b").facts["gpu_memory_need_bytes"] == GIB
    assert world.engine("b").facts["gpu_memory_used_bytes"] == GIB
    assert world.engine("b").facts["devices"] == "[]"
    assert (looks[0], looks[-1]) == (False, True)


def test_what_is_spread_counts_where_it_was_told_to_lie(world: World) -> None:
    fleet, two = world.supervisor._fleet, (10 * GIB, 10 * GIB)
    fleet._read_room = lambda _pids: Room(99 * GIB, 99 * GIB, 0, two, two)
    needs = {"a": Need(GIB, GIB, (8 * GIB, 0)), "b": Need(GIB, GIB, (3 * GIB, 3 * GIB), True)}
    fleet._read_need = lambda config: needs[config.name]
    fleet._needs.clear()
    world.ask("b")
    world.tick()
    assert world.engine("b").state == "ready"
    assert world.engine("b").shares == (GIB, 5 * GIB)
    models = [fleet._model(world.engine(name), world.now) for name in ("a", "b")]
    assert [model.gpu_bytes for model in models] == [(8 * GIB, 0), (GIB, 5 * GIB)]
    world.engine("b").state = "off"
    assert fleet._model(world.engine("b"), world.now).gpu_bytes == (3 * GIB, 3 * GIB)


def test_what_may_lie_on_a_gpu_waits_till_that_is_known(world: World) -> None:
    fleet = world.supervisor._fleet
    is_open = {"b": True}
    fleet._read_room = lambda _pids: Room(9 * GIB, 9 * GIB)
    fleet._read_need = lambda config: Need(GIB, GIB, is_open=is_open.get(config.name, False))
    fleet._needs.clear()
    gid = world.ask("b")
    world.tick(PATIENCE_S)
    assert world.engine("b").state == "off"
    assert world.engine("b").told[-1].startswith("model b waits for GPU memory: the driver")
    assert world.engine("a").asked == []
    is_open.clear()
    world.tick()
    assert world.engine("b").state == "ready"
    assert not world.queue.read("b", gid, START).entries


def test_who_leaves_the_queue_costs_nobody_a_place(world: World) -> None:
    gid = world.ask("b")
    world.queue.cancel("b", gid, "user")
    world.tick(MIN_RESIDENCE_S + PATIENCE_S)
    assert world.engine("a").asked == []


def test_work_in_the_background_swaps_nothing(world: World) -> None:
    world.ask("b", lane="background")
    world.tick(MIN_RESIDENCE_S + 1)
    world.tick(PATIENCE_S)
    assert world.engine("a").asked == []


def test_a_pinned_model_stays_and_the_others_are_told_the_sizes(world: World) -> None:
    model_pin_set(config=world.engine("a").config, is_pinned=True)
    gid = world.ask("b")
    world.tick(MIN_RESIDENCE_S)
    assert world.engine("a").asked == []
    assert world.end_of("b", gid).message == (
        "model b is too large: it needs 1.0 GiB, 0 MiB may be used beside another model"
    )


def test_a_model_that_never_fits_fails_its_requests_with_both_sizes(world: World) -> None:
    world.needs["b"] = 9 * GIB
    world.supervisor._fleet._needs.clear()
    gid = world.ask("b")
    world.tick()
    end = world.end_of("b", gid)
    assert end.code == "model_unavailable"
    assert end.message == "model b is too large: it needs 9.0 GiB, 1.0 GiB may be used"


def test_pinning_and_waiting_for_demand_restart_nothing_and_are_audited(world: World) -> None:
    engine = world.engine("a")
    assert model_pin_set(config=engine.config, is_pinned=True)
    assert not model_pin_set(config=engine.config, is_pinned=True)
    assert model_pin_set(config=engine.config, is_pinned=False)
    assert model_on_demand(config=engine.config)
    world.tick()
    assert world.engine("a") is engine
    assert (engine.asked, engine.state) == ([], "ready")
    assert (engine.config.wanted, engine.config.is_pinned) == ("auto", False)
    assert model_load(config=engine.config)
    actions = AuditEvent.objects.order_by("pk").values_list("action", flat=True)
    assert [action.rpartition(".")[2] for action in actions] == [
        "pin", "unpin", "on_demand", "load",
    ]  # fmt: skip


def test_loads_by_demand_are_not_audited(world: World) -> None:
    world.ask("b")
    world.tick(MIN_RESIDENCE_S)
    world.left("a")
    world.tick()
    assert world.engine("b").state == "ready"
    assert not AuditEvent.objects.exists()


def test_without_a_setting_engines_get_what_others_leave() -> None:
    found = room_of(Ram(total=16 * GIB, available=4 * GIB), private=3 * GIB, max_loaded=2)
    assert found == Room(6 * GIB, 15 * GIB, 2)
    assert room_of(Ram(total=GIB, available=0), private=0, max_loaded=0).budget_bytes == 0


def test_the_settings_are_the_bounds_and_what_mock_models_need(settings: Any) -> None:
    settings.ENGINE_MEMORY_MIB, settings.ENGINE_MAX_LOADED = 1024, 3
    settings.MOCK_MEMORY_MIB = 512
    assert read_room([]) == Room(GIB, GIB, 3)
    assert read_need(ModelConfig(engine_class="mock")) == Need(GIB // 2, GIB // 2)
    assert read_need(ModelConfig(engine_class="upstream")) == Need(0, 0)


def test_a_budget_counts_full_prompt_caches_and_a_guess_does_not(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Estimate((Part("weights", 700), Part("cache", 300)), 1)
    monkeypatch.setattr("inference.supervisor.budget.model_estimate", lambda *_: found)
    assert read_need(ModelConfig()) == Need(1000, 700)
    settings.ENGINE_MEMORY_MIB = 1
    assert read_need(ModelConfig()) == Need(1000, 1000)
