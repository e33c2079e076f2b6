"""Memory of GPUs: what there is, what a model takes of it, and where nothing is counted."""

from __future__ import annotations

from typing import Any

import pytest

from inference.models import ModelConfig
from inference.protocol.devices import Device, DeviceKind, decode_devices, encode_devices
from inference.registry.memory import Estimate, Part
from inference.supervisor import gpus as module
from inference.supervisor.budget import GPU_PROCESS_BYTES, Need, read_need, read_room
from inference.supervisor.gpus import GpuRoom, Gpus, ask_devices, room_of

GIB = 1 << 30
MIB = 1 << 20
CPU = Device("CPU", "a processor", "other", 60 * GIB, 64 * GIB)


def gpu(free_gib: float, total_gib: float = 16.0, kind: DeviceKind = "gpu") -> Device:
    return Device("CUDA0", "a card", kind, int(free_gib * GIB), int(total_gib * GIB))


def found(*devices: Device) -> Gpus:
    return Gpus(lambda: devices)


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
    assert need == Need(400 * MIB, 100 * MIB, 600 * MIB + GPU_PROCESS_BYTES)


def test_without_a_gpu_all_of_it_is_the_hosts(config: ModelConfig) -> None:
    assert read_need(config, found(CPU)) == Need(1000 * MIB, 700 * MIB, 0)


def test_an_integrated_one_takes_the_hosts_memory(config: ModelConfig) -> None:
    integrated = gpu(10, kind="integrated")
    assert read_need(config, found(CPU, integrated)) == Need(1000 * MIB, 700 * MIB, 0)
    assert read_need(config, found(CPU, integrated, gpu(10))).gpu == 600 * MIB + GPU_PROCESS_BYTES


def test_nothing_is_asked_before_a_model_wants_a_gpu(
    monkeypatch: pytest.MonkeyPatch, config: ModelConfig
) -> None:
    asked: list[int] = []

    def ask() -> tuple[Device, ...]:
        asked.append(1)
        return (gpu(10),)

    gpus = Gpus(ask)
    assert read_room([], gpus).gpu_limit_bytes is None
    monkeypatch.setattr(
        "inference.supervisor.budget.model_estimate",
        lambda _config: Estimate((Part("weights", MIB),), 1),
    )
    assert read_need(config, gpus) == Need(MIB, MIB, 0)
    assert asked == []


def test_they_are_asked_once(config: ModelConfig) -> None:
    answers = [(gpu(10),)]
    gpus = Gpus(lambda: answers.pop())
    assert read_need(config, gpus) == read_need(config, gpus)
    assert answers == []


def test_the_room_is_what_was_free_but_a_reserve() -> None:
    assert room_of([gpu(10, 16)]) == GpuRoom(9 * GIB, 15 * GIB)
    assert room_of([gpu(1, 2), gpu(2, 2)]) == GpuRoom(3 * GIB - 512 * MIB, 4 * GIB - 512 * MIB)
    assert room_of([gpu(0.1, 2)]).budget_bytes == 0


def test_the_room_reaches_the_plan(config: ModelConfig) -> None:
    gpus = found(CPU, gpu(10, 16))
    read_need(config, gpus)
    room = read_room([], gpus)
    assert (room.gpu_budget_bytes, room.gpu_limit_bytes) == (9 * GIB, 15 * GIB)


def test_a_setting_is_the_budget_whatever_there_is(config: ModelConfig, settings: Any) -> None:
    settings.ENGINE_GPU_MEMORY_MIB = 2048
    for gpus in (found(CPU, gpu(10)), Gpus(lambda: None)):
        room = read_room([], gpus)
        assert (room.gpu_budget_bytes, room.gpu_limit_bytes) == (2 * GIB, 2 * GIB)


def test_where_nobody_can_tell_nothing_is_counted(config: ModelConfig) -> None:
    gpus = Gpus(lambda: None)
    assert read_need(config, gpus).gpu == 600 * MIB + GPU_PROCESS_BYTES
    assert read_room([], gpus).gpu_limit_bytes is None


def test_devices_travel_as_a_line() -> None:
    devices = (CPU, gpu(1.5))
    line = encode_devices(devices)
    assert "\n" not in line
    assert decode_devices(line) == devices


def test_a_child_that_does_not_answer_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULE", "inference.worker.no_such_module")
    assert ask_devices() is None
    monkeypatch.setattr(module, "MODULE", "this")  # answers, but says something else
    assert ask_devices() is None


@pytest.mark.model
def test_llama_cpp_is_asked_in_a_child() -> None:
    """Here it finds the CPU at least, with the host's memory."""
    devices = ask_devices()
    assert devices is not None
    assert any(device.kind == "other" and device.total_bytes > GIB for device in devices)
