"""Memory of GPUs: what there is, what a model takes of it, and where nothing is counted."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from inference.models import ModelConfig
from inference.protocol.devices import Device, DeviceKind, decode_devices, encode_devices
from inference.registry.memory import Estimate, Part
from inference.supervisor import gpus as module
from inference.supervisor.budget import GPU_PROCESS_BYTES, Need, read_need, read_room
from inference.supervisor.gpus import (
    REFRESH_S,
    RETRY_S,
    DevicesChild,
    GpuRoom,
    Gpus,
    room_of,
    told,
)
from llamaweb.lib.clock import ManualClock
from tests.stack import wait_for

GIB = 1 << 30
MIB = 1 << 20
ON_GPU = (600 * MIB + GPU_PROCESS_BYTES,)
CPU = Device("CPU", "a processor", "other", 60 * GIB, 64 * GIB)


def gpu(free_gib: float, total_gib: float = 16.0, kind: DeviceKind = "gpu") -> Device:
    return Device("CUDA0", "a card", kind, int(free_gib * GIB), int(total_gib * GIB))


class Driver:
    """Answers with what it `has`, when it `is_over`; `num_asked` times so far."""

    def __init__(self, *devices: Device) -> None:
        self.has: tuple[Device, ...] | None = devices
        self.over, self.num_asked = True, 0
        self.clock = ManualClock()
        self.gpus = Gpus(self._ask, self.clock.monotonic)

    def _ask(self) -> Driver:
        self.num_asked += 1
        return self

    def is_over(self) -> bool:
        return self.over

    def devices(self) -> tuple[Device, ...] | None:
        return self.has

    def look(self, seconds: float = 0.0, *, is_used: bool = False) -> None:
        """Somebody wants a GPU, and as many moments as an answer takes pass."""
        self.clock.advance(seconds)
        self.gpus.place()
        for _ in range(2):
            self.gpus.look(is_used=is_used)

    def free_gib(self) -> float:
        devices = self.gpus.devices
        assert devices is not None
        return devices[-1].free_bytes / GIB


def found(*devices: Device) -> Gpus:
    driver = Driver(*devices)
    driver.look()
    return driver.gpus


def silent() -> Gpus:
    """Where nobody can tell."""
    driver = Driver()
    driver.has = None
    driver.look()
    return driver.gpus


def answer(child: DevicesChild) -> tuple[Device, ...] | None:
    wait_for("the child's end", child.is_over, 30)
    return child.devices()


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, settings: Any) -> ModelConfig:
    """A model of which 600 MiB go to a GPU, and everything to the host where there are no layers on
    one."""
    settings.ENGINE_MEMORY_MIB = settings.ENGINE_GPU_MEMORY_MIB = 0

    def estimate(_config: ModelConfig, changes: Any = None) -> Estimate:
        on_gpu = 0 if changes == {"gpu_layers": 0} else 600 * MIB
        weights = Part("weights", 700 * MIB - on_gpu, on_gpu)
        return Estimate((weights, Part("cache", 300 * MIB)), 1)

    monkeypatch.setattr("inference.supervisor.budget.model_estimate", estimate)
    return ModelConfig(name="m", gpu_layers=-1)


def test_a_model_on_a_gpu_needs_both_memories(config: ModelConfig) -> None:
    need = read_need(config, found(CPU, gpu(10)))
    assert need == Need(400 * MIB, 100 * MIB, ON_GPU)


def test_without_a_gpu_all_of_it_is_the_hosts(config: ModelConfig) -> None:
    assert read_need(config, found(CPU)) == Need(1000 * MIB, 700 * MIB)


def test_an_integrated_one_takes_the_hosts_memory(config: ModelConfig) -> None:
    integrated = gpu(10, kind="integrated")
    assert read_need(config, found(CPU, integrated)) == Need(1000 * MIB, 700 * MIB)
    assert read_need(config, found(CPU, integrated, gpu(10))).gpu == ON_GPU


def test_nothing_is_asked_before_a_model_wants_a_gpu(
    monkeypatch: pytest.MonkeyPatch, config: ModelConfig
) -> None:
    driver = Driver(gpu(10))
    assert read_room([], driver.gpus).gpu_limits is None
    monkeypatch.setattr(
        "inference.supervisor.budget.model_estimate",
        lambda *_: Estimate((Part("weights", MIB),), 1),
    )
    assert read_need(config, driver.gpus) == Need(MIB, MIB)
    driver.gpus.look(is_used=False)
    assert driver.num_asked == 0


def test_only_models_on_gpus_wait_for_the_answer(config: ModelConfig) -> None:
    driver = Driver(gpu(10))
    driver.over = False
    driver.look()
    assert read_need(config, driver.gpus).is_open
    driver.over = True
    driver.look()
    need = read_need(config, driver.gpus)
    assert (need.is_open, need.gpu, driver.num_asked) == (False, ON_GPU, 1)


def test_whoever_shows_a_need_asks_nobody(
    monkeypatch: pytest.MonkeyPatch, config: ModelConfig
) -> None:
    started: list[str] = []
    monkeypatch.setattr(module, "ChildProcess", lambda *_args, **_named: started.append("child"))
    assert not read_need(config).is_open
    assert read_room([]).gpu_limits is None
    assert started == []


def test_where_nobody_could_tell_they_are_asked_again() -> None:
    driver = Driver(gpu(10))
    driver.has = None
    driver.look(is_used=True)
    driver.has = (gpu(10),)
    driver.look(RETRY_S - 1, is_used=True)
    assert (driver.gpus.place(), driver.num_asked) == ("unknown", 1)
    driver.look(1, is_used=True)
    assert (driver.gpus.place(), driver.num_asked) == ("gpu", 2)


def test_what_is_free_is_asked_again_while_no_engine_takes_any() -> None:
    driver = Driver(gpu(4))
    driver.look()
    driver.has = (gpu(10),)
    driver.look(REFRESH_S - 1)
    driver.look(1, is_used=True)
    assert (driver.free_gib(), driver.num_asked) == (4, 1)
    driver.look()
    assert (driver.free_gib(), driver.num_asked) == (10, 2)
    driver.has = None
    driver.look(REFRESH_S)
    assert (driver.free_gib(), driver.num_asked) == (10, 3)  # what was known stays


def test_whoever_cannot_be_asked_cannot_tell() -> None:
    def ask() -> Driver:
        raise OSError("no more processes")

    gpus = Gpus(ask)
    assert gpus.place() == "asking"
    gpus.look(is_used=False)
    assert gpus.place() == "unknown"


def test_an_engine_that_starts_meanwhile_spoils_the_answer() -> None:
    driver = Driver(gpu(10))
    driver.look()
    driver.over = False
    driver.look(REFRESH_S)
    driver.look(is_used=True)
    driver.over, driver.has = True, (gpu(3),)
    driver.look()
    assert (driver.free_gib(), driver.num_asked) == (10, 2)


def test_nothing_is_asked_again_for_nobody_or_without_gpus() -> None:
    driver = Driver(gpu(10))
    driver.look()
    driver.gpus.look(is_used=False)
    driver.clock.advance(REFRESH_S)
    driver.gpus._is_wanted = False
    driver.gpus.look(is_used=False)
    without = Driver(CPU)
    for _ in range(2):
        without.look(REFRESH_S)
    assert (driver.num_asked, without.num_asked) == (1, 1)


def test_the_room_is_what_was_free_but_a_reserve() -> None:
    assert room_of(gpu(10, 16)) == GpuRoom(9 * GIB, 15 * GIB)
    assert room_of(gpu(1, 2)) == GpuRoom(GIB - 256 * MIB, 2 * GIB - 256 * MIB)
    assert room_of(gpu(0.1, 2)).budget_bytes == 0


def test_the_room_reaches_the_plan(config: ModelConfig) -> None:
    gpus = found(CPU, gpu(10, 16))
    read_need(config, gpus)
    room = read_room([], gpus)
    assert (room.gpu_budgets, room.gpu_limits) == ((9 * GIB,), (15 * GIB,))


@pytest.mark.parametrize(
    ("fields", "mib"),
    [
        ({"split_mode": "none"}, (600, 0)),
        ({"split_mode": "none", "main_gpu": 1}, (0, 600)),
        ({"split_mode": "none", "main_gpu": 7}, (0, 600)),
        ({"split_mode": "none", "tensor_split": [1, 2]}, (600, 0)),
        ({"tensor_split": [1, 2]}, (200, 400)),
        ({"tensor_split": [1]}, (600, 0)),
        ({"split_mode": "row", "tensor_split": [0, 0]}, (150, 450)),
        ({}, (150, 450)),  # as much is free there
    ],
)
def test_what_lies_on_each_of_two(
    config: ModelConfig, settings: Any, fields: dict[str, Any], mib: tuple[int, int]
) -> None:
    for name, value in fields.items():
        setattr(config, name, value)
    gpus = found(CPU, gpu(3), gpu(9))
    expected = tuple(part * MIB + GPU_PROCESS_BYTES if part else 0 for part in mib)
    need = read_need(config, gpus)
    assert need.gpu == expected
    assert need.is_spread == (mib == (150, 450))
    assert read_room([], gpus).gpu_budgets == (2 * GIB, 8 * GIB)
    settings.ENGINE_GPU_MEMORY_MIB = 4096  # of all together
    assert read_need(config, gpus).gpu == ON_GPU
    assert read_room([], gpus).gpu_budgets == (4 * GIB,)


def test_what_is_split_by_tensors_is_not_spread(config: ModelConfig) -> None:
    config.split_mode = "tensor"
    assert not read_need(config, found(CPU, gpu(3), gpu(9))).is_spread


def test_vectors_are_not_what_it_takes_to_be_loaded(
    monkeypatch: pytest.MonkeyPatch, config: ModelConfig, settings: Any
) -> None:
    parts = Part("weights", 100 * MIB, 600 * MIB), Part("vectors", 10 * MIB, 90 * MIB)
    monkeypatch.setattr("inference.supervisor.budget.model_estimate", lambda *_: Estimate(parts, 1))
    assert read_need(config, found(gpu(10))) == Need(110 * MIB, 100 * MIB, ON_GPU)
    integrated = found(gpu(10, kind="integrated"))
    assert read_need(config, integrated) == Need(800 * MIB, 700 * MIB)
    settings.ENGINE_MEMORY_MIB = settings.ENGINE_GPU_MEMORY_MIB = 4096  # budgets are kept
    more = (ON_GPU[0] + 90 * MIB,)
    assert read_need(config, found(gpu(10))) == Need(110 * MIB, 110 * MIB, more)


def test_what_one_process_knows_another_is_told() -> None:
    gpus = found(CPU, gpu(10))
    assert told(gpus.line).devices == gpus.devices
    assert told(found().line).devices == ()
    for line in (Gpus().line, "", "nonsense"):
        assert told(line).place() == "unknown"


def test_a_setting_is_the_budget_whatever_there_is(config: ModelConfig, settings: Any) -> None:
    settings.ENGINE_GPU_MEMORY_MIB = 2048
    for gpus in (found(CPU, gpu(10)), silent()):
        room = read_room([], gpus)
        assert (room.gpu_budgets, room.gpu_limits) == ((2 * GIB,), (2 * GIB,))


def test_where_nobody_can_tell_nothing_is_counted(config: ModelConfig) -> None:
    gpus = silent()
    assert read_need(config, gpus).gpu == ON_GPU
    assert read_room([], gpus).gpu_limits is None


def test_devices_travel_as_a_line() -> None:
    devices = (CPU, gpu(1.5))
    line = encode_devices(devices)
    assert "\n" not in line
    assert decode_devices(line) == devices


def test_a_child_that_does_not_answer_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULE", "inference.worker.no_such_module")
    assert answer(DevicesChild()) is None
    monkeypatch.setattr(module, "MODULE", "this")  # answers, but says something else
    assert answer(DevicesChild()) is None


class Stuck:
    """A child that hangs in a driver and can't even be killed."""

    lived_s, signals = 0.0, 0

    def __init__(self, *_args: Any, **_named: Any) -> None: ...

    def poll(self) -> None: ...

    def kill(self) -> None:
        self.signals += 1


def test_nobody_waits_for_ever_for_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ChildProcess", Stuck)
    question = DevicesChild()
    child: Any = question._child
    assert (question.is_over(), child.signals) == (False, 0)
    child.lived_s = module.ASK_S + 0.1
    assert (question.is_over(), child.signals) == (False, 1)
    child.lived_s = module.ASK_S + module.KILL_S + 0.1
    assert question.is_over()
    assert question.devices() is None


def test_a_child_ends_with_whoever_asks() -> None:
    """Here that is no process at all."""
    command = [sys.executable, "-m", "inference.worker.devices"]
    done = subprocess.run(command, input="4194305\n", capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.model
def test_llama_cpp_is_asked_in_a_child() -> None:
    """Here it finds the CPU at least, with the host's memory."""
    devices = answer(DevicesChild())
    assert devices is not None
    assert any(device.kind == "other" and device.total_bytes > GIB for device in devices)
