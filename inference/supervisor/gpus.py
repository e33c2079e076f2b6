"""What GPUs there are, asked once, and how much of their memory engines may take."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from inference.protocol.codec import DecodeError
from inference.protocol.devices import Device, decode_devices
from inference.supervisor.child import ChildProcess

log = logging.getLogger(__name__)

MODULE = "inference.worker.devices"
ASK_S = 20.0  # a driver that isn't loaded yet may need seconds
KILL_S = 2.0
MIB = 1 << 20
# Left on each GPU to whatever else draws or computes there: a part of all there is.
RESERVE_PART, MIN_RESERVE_BYTES, MAX_RESERVE_BYTES = 16, 256 * MIB, 1024 * MIB

# Where layers lie that are to lie on a GPU: "nowhere" is known, "unknown" isn't.
Place: TypeAlias = Literal["gpu", "host", "nowhere", "unknown"]


@dataclass(frozen=True, slots=True)
class GpuRoom:
    """Bytes of all GPUs together: what engines may take now, and at most."""

    budget_bytes: int
    limit_bytes: int


class Gpus:
    """Asks with `ask` when somebody first wants layers on a GPU: before that no engine uses one, so
    what isn't free then is other programs'. `devices`: None until then, and where nobody can tell.
    """

    def __init__(self, ask: Callable[[], tuple[Device, ...] | None]) -> None:
        self.devices: tuple[Device, ...] | None = None
        self._ask = ask
        self._has_asked = False

    def place(self) -> Place:
        """Where layers lie that are to lie on a GPU; may take seconds the first time."""
        if not self._has_asked:
            self._has_asked = True
            self.devices = self._ask()
        if self.devices is None:
            return "unknown"
        # llama.cpp takes GPUs with memory of their own where there are any.
        kinds = {device.kind for device in self.devices}
        return "gpu" if "gpu" in kinds else "host" if "integrated" in kinds else "nowhere"

    def room(self, most_mib: int) -> GpuRoom | None:
        """`most_mib`: what somebody has decided, 0: nobody. None: memory of GPUs isn't counted."""
        if most_mib:
            return GpuRoom(most_mib * MIB, most_mib * MIB)
        gpus = [device for device in self.devices or () if device.kind == "gpu"]
        return room_of(gpus) if gpus else None


def room_of(gpus: Sequence[Device]) -> GpuRoom:
    """All that is free and not left to others; llama.cpp spreads layers over all GPUs."""
    budget = limit = 0
    for gpu in gpus:
        part = gpu.total_bytes // RESERVE_PART
        reserve = min(MAX_RESERVE_BYTES, max(MIN_RESERVE_BYTES, part))
        budget += max(0, gpu.free_bytes - reserve)
        limit += max(0, gpu.total_bytes - reserve)
    return GpuRoom(budget, limit)


def ask_devices() -> tuple[Device, ...] | None:
    """What a child of its own finds; None if that can't be told."""
    child = ChildProcess("devices", MODULE, "", answers=True)
    if not child.wait(ASK_S):
        child.kill()
        child.wait(KILL_S)
    try:
        if child.poll() == 0:
            devices = decode_devices(child.answer)
            log.info("devices: %s", ", ".join(f"{d.name} ({d.title})" for d in devices))
            return devices
    except DecodeError:
        log.warning("the devices child said what can't be read")
    log.warning("nobody can tell what GPUs there are; their memory isn't counted")
    return None


here = Gpus(ask_devices)
