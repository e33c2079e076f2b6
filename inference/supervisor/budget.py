"""How much memory engines may take here, and how much one of them will."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from inference.models import ModelConfig
from inference.registry import upstreams
from inference.registry.memory_plan import model_estimate
from inference.supervisor.placement import Room
from llamaweb.lib.ram import Ram, read_ram

log = logging.getLogger(__name__)

MIB = 1 << 20
# Left to everybody else where nobody has said how much engines may take: a part of all there is.
RESERVE_PART, MIN_RESERVE_BYTES, MAX_RESERVE_BYTES = 16, 256 * MIB, 2048 * MIB


def takes_place(config: ModelConfig) -> bool:
    """Whether it is computed here."""
    return config.engine_class != upstreams.ENGINE_CLASS


@dataclass(frozen=True, slots=True)
class Need:
    """Of host memory, in bytes: with a full prompt cache, and what may do where nobody has set a
    budget; 0 where nobody can tell."""

    most: int
    least: int


def read_need(config: ModelConfig) -> Need:
    """What an engine of `config` will take."""
    if config.engine_class == "mock":
        return Need(settings.MOCK_MEMORY_MIB * MIB, settings.MOCK_MEMORY_MIB * MIB)
    try:
        found = model_estimate(config)
    except Exception:  # a file nobody foresaw must not keep the others from being loaded
        log.exception("model %s: nobody can tell what memory it needs", config.name)
        found = None
    if found is not None:
        is_strict = bool(settings.ENGINE_MEMORY_MIB)
        return Need(found.host_bytes, found.host_bytes if is_strict else found.loaded_bytes)
    size = (config.file.size or 0) if config.file is not None else 0
    return Need(size, size)


def read_room(pids: Iterable[int]) -> Room:
    """What engines may take now. `pids`: of those that run."""
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
