"""Before the first engine of a model comes a trial, whose result is kept. The trials are real
processes (`fake_trial.py`), the engines scripted doubles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inference.models import Calibration, MachineProbe, ModelConfig
from inference.protocol.trial import TrialOrder
from inference.queues.memory import MemoryQueue
from inference.registry.calibrations import measured_of, model_measure
from inference.supervisor import engine as engine_module
from inference.supervisor import trial_process
from inference.supervisor.engine import SupervisedEngine
from inference.supervisor.machine import Machine
from inference.supervisor.specs import Tuning, engine_spec
from inference.supervisor.trial_process import TrialProcess, TrialSeat
from llamaweb.accounts.models import AuditEvent, User
from tests.stack import wait_for
from tests.supervisor.fake_trial import CHOICE

pytestmark = pytest.mark.django_db
MACHINE = Machine("machine-key", "a processor, 2 cores")


class FakeEngine:
    """Lives until told what to exit with."""

    def __init__(self, spec: Any) -> None:
        self.spec, self.pid, self.lived_s, self.last_line = spec, 1, 1.0, "last words"
        self.log_tail = (self.last_line,)
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code


class World:
    """Engines of configs on one machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.queue = MemoryQueue()
        self.seat = TrialSeat()
        self.specs: list[Any] = []
        self.engines: list[FakeEngine] = []
        self.trials: list[TrialProcess] = []
        self._file = folder / "model.gguf"
        self._file.write_bytes(b"GGUF" + b"x" * 1000)
        monkeypatch.setattr(trial_process, "MODULE", "tests.supervisor.fake_trial")
        monkeypatch.setattr(engine_module, "engine_redis_url", lambda _model: "")
        monkeypatch.setattr(engine_module, "EngineProcess", self._start)
        monkeypatch.setattr(engine_module, "TrialProcess", self._try)
        for module in ("engine", "tuning"):
            monkeypatch.setattr(f"inference.supervisor.{module}.this_machine", lambda: MACHINE)

    def config(self, name: str, **fields: Any) -> ModelConfig:
        return ModelConfig.objects.create(name=name, model_path=str(self._file), **fields)

    def supervise(self, config: ModelConfig) -> SupervisedEngine:
        return SupervisedEngine(config, self.queue, self.seat)

    def run(self, engine: SupervisedEngine) -> None:
        """Start it, wait for the trial if there is one, and look once more."""

        def has_tried() -> bool:
            engine.look_after(0.0)
            return engine.has_engine or not engine.is_running

        wait_for("the trial ended", has_tried, 30.0)
        engine.look_after(0.0)

    def told(self, model: str) -> tuple[str, str]:
        (status,) = [s for s in self.queue.engines(model) if s.engine_id == "supervisor"]
        return status.state, str(status.info["reason"])

    def change_file(self) -> None:
        self._file.write_bytes(b"GGUF" + b"y" * 1001)

    def _start(self, spec: Any) -> FakeEngine:
        self.specs.append(spec)
        self.engines.append(FakeEngine(spec))
        return self.engines[-1]

    def _try(self, order: TrialOrder, *, file_bytes: int) -> TrialProcess:
        self.trials.append(TrialProcess(order, file_bytes=file_bytes))
        return self.trials[-1]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


def test_the_first_start_is_tried_and_the_engine_runs_with_the_result(world: World) -> None:
    config = world.config("good", num_slots=3)
    engine = world.supervise(config)
    engine.look_after(0.0)
    assert world.told("good") == (
        "starting", "model good is being measured on this machine, once",
    )  # fmt: skip
    assert (engine.is_running, engine.has_engine, world.specs) == (True, False, [])
    world.run(engine)
    (spec,) = world.specs
    assert (spec.threads, spec.flash_attention, spec.ubatch_len) == (2, "on", 1024)
    # A pool that was chosen for its speed has the room of the streams.
    assert (spec.kv_unified, spec.pool_contexts) == (True, 3)
    assert spec.use_extra_bufts
    assert world.told("good") == ("starting", "")
    row = Calibration.objects.get()
    measured = measured_of(row)
    assert measured is not None
    assert (measured.choice, row.machine_name) == (CHOICE, "a processor, 2 cores")


def test_later_starts_of_the_model_use_it(world: World) -> None:
    config = world.config("good")
    world.run(world.supervise(config))
    world.run(world.supervise(config))
    assert (len(world.trials), len(world.specs)) == (1, 2)
    assert world.specs[0].flash_attention == world.specs[1].flash_attention == "on"


def test_another_model_of_the_same_file_and_settings_uses_it_too(world: World) -> None:
    world.run(world.supervise(world.config("good")))
    world.run(world.supervise(world.config("twin")))
    assert len(world.trials) == 1
    assert world.specs[1].threads == 2


@pytest.mark.parametrize(
    "change",
    [{"num_slots": 2}, {"context_len": 512}, {"cache_type_k": "q8_0"}, {"gpu_layers": 3},
     {"threads": 1}, {"kv_layout": "streams"}, "file", "machine"],
)  # fmt: skip
def test_what_it_depends_on_is_measured_anew(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    config = world.config("good")
    world.run(world.supervise(config))
    if change == "file":
        world.change_file()
    elif change == "machine":
        other = Machine("other-key", "another processor")
        monkeypatch.setattr("inference.supervisor.tuning.this_machine", lambda: other)
    else:
        for name, value in change.items():
            setattr(config, name, value)
    world.run(world.supervise(config))
    assert len(world.trials) == 2


def test_what_somebody_decided_wins(world: World) -> None:
    config = world.config(
        "good", threads=5, flash_attention="off", kv_layout="streams", ubatch_len=64
    )
    world.run(world.supervise(config))
    (spec,) = world.specs
    assert (spec.threads, spec.flash_attention, spec.ubatch_len) == (5, "off", 64)
    assert (spec.kv_unified, spec.pool_contexts) == (False, 1)
    assert world.trials[0].order.open == ()
    assert not Calibration.objects.exists()
    unified = world.config("fixed", kv_layout="unified", num_slots=4)
    spec = engine_spec(unified, redis_url="", tuning=Tuning(choice=CHOICE))
    assert (spec.kv_unified, spec.pool_contexts) == (True, 1)


def test_an_illegal_instruction_is_remembered_for_the_machine(world: World) -> None:
    config = world.config("illegal")
    engine = world.supervise(config)
    world.run(engine)
    world.run(engine)
    assert [t.order.spec.use_extra_bufts for t in world.trials] == [True, False]
    assert [spec.use_extra_bufts for spec in world.specs] == [False]
    assert not MachineProbe.objects.get().use_extra_bufts
    world.run(world.supervise(world.config("good", num_slots=2)))
    assert not world.trials[-1].order.spec.use_extra_bufts
    assert not world.specs[-1].use_extra_bufts


def test_an_engine_that_dies_of_one_is_remembered_too(world: World) -> None:
    config = world.config("good")
    engine = world.supervise(config)
    world.run(engine)
    world.engines[0].code = -4
    engine.look_after(0.0)
    assert not MachineProbe.objects.get().use_extra_bufts
    world.run(world.supervise(config))
    assert [spec.use_extra_bufts for spec in world.specs] == [True, False]


def test_a_model_that_can_not_be_loaded_says_so_and_waits(world: World) -> None:
    engine = world.supervise(world.config("damaged"))
    world.run(engine)
    assert engine.unservable_reason == "model file 'x.gguf' is damaged"
    engine.tell()
    assert world.told("damaged") == ("stopped", "model file 'x.gguf' is damaged")
    engine.look_after(1.0)
    assert (len(world.trials), world.specs) == (1, [])
    assert not Calibration.objects.exists()


def test_a_file_that_is_gone_needs_no_trial(world: World) -> None:
    config = world.config("good")
    config.model_path = "/nowhere/x.gguf"
    engine = world.supervise(config)
    engine.look_after(0.0)
    assert engine.unservable_reason == "model file 'x.gguf' doesn't exist or can't be read"
    assert world.trials == []


@pytest.mark.parametrize(("kind", "cause"), [("crashes", "SIGSEGV"), ("mumbles", "exit code 0")])
def test_a_trial_that_fails_leaves_the_defaults_and_is_not_repeated(
    world: World, kind: str, cause: str
) -> None:
    config = world.config(kind)
    for _ in range(2):
        world.run(world.supervise(config))
    assert (len(world.trials), len(world.specs)) == (1, 2)
    assert (world.specs[0].flash_attention, world.specs[0].threads) == ("auto", 0)
    row = Calibration.objects.get()
    assert (row.measured, row.error) == (None, f"the measurement failed: {cause}")


def test_a_trial_that_hangs_is_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_process, "LOAD_S", -1e6)
    world.run(world.supervise(world.config("hangs")))
    assert Calibration.objects.get().error == "the measurement failed: it took too long"
    assert len(world.specs) == 1


def test_one_trial_at_a_time(world: World) -> None:
    first, second = world.supervise(world.config("hangs")), world.supervise(
        world.config("good", num_slots=2)
    )  # fmt: skip
    first.look_after(0.0)
    second.look_after(0.0)
    assert len(world.trials) == 1
    assert world.told("good") == ("starting", "model good waits until another one has been tried")
    first.end(0.0)
    world.run(first)
    second.look_after(2.0)
    assert len(world.trials) == 2
    second.end(0.0)
    second.wait_end()


@pytest.mark.parametrize("way", ["end", "drain"])
def test_a_model_that_is_unloaded_meanwhile_is_left_alone(world: World, way: str) -> None:
    engine = world.supervise(world.config("hangs"))
    engine.look_after(0.0)
    getattr(engine, way)(0.0)
    world.run(engine)
    assert not engine.is_running
    engine.look_after(99.0)
    assert (len(world.trials), world.specs) == (1, [])
    assert not Calibration.objects.exists()
    assert world.seat.take(world)


def test_the_end_of_the_supervisor_ends_a_trial(world: World) -> None:
    engine = world.supervise(world.config("hangs"))
    engine.look_after(0.0)
    engine.end(0.0)
    engine.wait_end()
    assert world.trials[0].poll() == -9
    assert not engine.is_running


def test_switched_off_the_machine_is_tried_and_nothing_measured(
    world: World, settings: Any
) -> None:
    settings.ENGINE_CALIBRATION = False
    world.run(world.supervise(world.config("good")))
    world.run(world.supervise(world.config("another", num_slots=2)))
    assert [trial.order.open for trial in world.trials] == [()]
    assert world.specs[0].flash_attention == "auto"
    assert (MachineProbe.objects.count(), Calibration.objects.count()) == (1, 0)


def test_measuring_again(world: World, alice: User) -> None:
    config = world.config("good")
    world.run(world.supervise(config))
    before = config.updated_at
    assert model_measure(config=config, actor=alice)
    assert not Calibration.objects.exists()
    config.refresh_from_db()
    assert config.updated_at > before  # the running engine starts anew
    world.run(world.supervise(config))
    assert len(world.trials) == 2
    assert [event.action for event in AuditEvent.objects.all()] == ["model_config.measure"]


@pytest.mark.parametrize("engine_class", ["mock", "some.package.build"])
def test_other_engines_are_not_tried(world: World, engine_class: str, settings: Any) -> None:
    settings.ENGINE_CLASSES = ("some.package.build",)
    world.run(world.supervise(world.config("good", engine_class=engine_class)))
    assert world.trials == []
    assert world.specs[0].use_extra_bufts
