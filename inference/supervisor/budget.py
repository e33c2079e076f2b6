"""How much memory engines may take here, of the host and of GPUs, and how much one of them will."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.conf import settings

from inference.models import ModelConfig
from inference.registry import upstreams
from inference.registry.memory import Estimate
from inference.registry.memory_plan import model_estimate
from inference.supervisor.gpus import Gpus, Place, unasked
from inference.supervisor.placement import Room
from llamaweb.lib.ram import Ram, read_ram

log = logging.getLogger(__name__)

MIB = 1 << 20
# Left to everybody else where nobody has said how much engines may take: a part of all there is.
RESERVE_PART, MIN_RESERVE_BYTES, MAX_RESERVE_BYTES = 16, 256 * MIB, 2048 * MIB
# What a driver takes on a GPU for a process that computes there, beside what llama.cpp allocates:
# 300 to 500 MiB with CUDA.
GPU_PROCESS_BYTES = 512 * MIB
SPREAD = ("layer", "row")  # split modes by what is free, where there are no shares


def takes_place(config: ModelConfig) -> bool:
    """Whether it is computed here."""
    return config.engine_class != upstreams.ENGINE_CLASS


@dataclass(frozen=True, slots=True)
class Need:
    """In bytes, 0 where nobody can tell. Of host memory: with a full prompt cache, and what may do
    where nobody has set a budget. `gpu`: of the memory of each GPU; `is_spread`: as it lies where
    nothing else does, see `placement.Model`. `is_open`: that is being found out, see `Gpus.look`.
    """

    most: int
    least: int
    gpu: tuple[int, ...] = ()
    is_spread: bool = False
    is_open: bool = False


def read_need(config: ModelConfig, gpus: Gpus = unasked) -> Need:
    """What an engine of `config` will take."""
    if config.engine_class == "mock":
        return Need(settings.MOCK_MEMORY_MIB * MIB, settings.MOCK_MEMORY_MIB * MIB)
    try:
        found = _need(config, gpus)
    except Exception:  # a file nobody foresaw must not keep the others from being loaded
        log.exception("model %s: nobody can tell what memory it needs", config.name)
        found = None
    if found is not None:
        return found
    size = (config.file.size or 0) if config.file is not None else 0
    return Need(size, size)


def placed_estimate(
    config: ModelConfig, gpus: Callable[[], Gpus], changes: Mapping[str, Any] | None = None
) -> tuple[Estimate | None, Place]:
    """What it will need here, and where what is for GPUs lies; these are asked for only then."""
    found = model_estimate(config, changes)
    place = gpus().place() if found is not None and found.device_bytes else "gpu"
    if place == "nowhere":  # llama.cpp computes all of it on the CPU then
        found = model_estimate(config, {**(changes or {}), "gpu_layers": 0})
    return found, place


def _need(config: ModelConfig, gpus: Gpus) -> Need | None:
    found, place = placed_estimate(config, lambda: gpus)
    if found is None:
        return None
    shared = found.device_bytes if place == "host" else 0
    vectors = found.part("vectors").device  # not what it takes to be loaded
    most, loaded = found.host_bytes + shared, found.loaded_bytes
    on_gpu = found.device_bytes
    if shared:
        on_gpu, loaded = 0, loaded + shared - vectors
    elif not settings.ENGINE_GPU_MEMORY_MIB:  # a budget that somebody has set is kept
        on_gpu -= vectors
    parts = _spread(config, on_gpu, gpus)
    return Need(
        most,
        most if settings.ENGINE_MEMORY_MIB else loaded,
        tuple(part + GPU_PROCESS_BYTES if part else 0 for part in parts),
        is_spread=len(parts) > 1 and config.split_mode in SPREAD and not any(config.tensor_split),
        is_open=place == "asking",
    )


def _spread(config: ModelConfig, num_bytes: int, gpus: Gpus) -> tuple[int, ...]:
    """Bytes of each GPU that `read_room` has room for."""
    if settings.ENGINE_GPU_MEMORY_MIB or not num_bytes:
        return (num_bytes,) if num_bytes else ()
    only = config.main_gpu if config.split_mode == "none" else None
    return gpus.spread(num_bytes, shares=config.tensor_split, only=only)


def read_room(pids: Iterable[int], gpus: Gpus = unasked) -> Room:
    """What engines may take now. `pids`: of those that run."""
    room = _host_room(pids)
    found = gpus.rooms(settings.ENGINE_GPU_MEMORY_MIB)
    if not found:
        return room
    budgets, limits = zip(*((gpu.budget_bytes, gpu.limit_bytes) for gpu in found), strict=True)
    return replace(room, gpu_budgets=budgets, gpu_limits=limits)


def _host_room(pids: Iterable[int]) -> Room:
    if settings.ENGINE_MEMORY_MIB:
        budget = settings.ENGINE_MEMORY_MIB * MIB
        return Room(budget, budget, settings.ENGINE_MAX_LOADED)
    ram = read_ram()
    if ram is None:
        return Room(0, None, settings.ENGINE_MAX_LOADED)
    return room_of(ram, sum(map(private_bytes, pids)), settings.ENGINE_MAX_LOADED)


def room_of(ram: Ram, private: int, max_loaded: int) -> Room:
    """Without a setting: all that is there and isn't other programs'. `private`: what engines take
    but mapped files, which count as available already."""
    reserve = min(MAX_RESERVE_BYTES, max(MIN_RESERVE_BYTES, ram.total // RESERVE_PART))
    limit = max(0, ram.total - reserve)
    return Room(max(0, min(limit, ram.available + private - reserve)), limit, max_loaded)


def private_bytes(pid: int) -> int:
    """What of a process is in memory, without mapped files; 0 if it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
