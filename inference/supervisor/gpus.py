"""What GPUs there are, and how much of their memory engines may take."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from inference.protocol.codec import DecodeError
from inference.protocol.devices import Device, decode_devices, encode_devices
from inference.supervisor.child import ChildProcess

log = logging.getLogger(__name__)

MODULE = "inference.worker.devices"
ASK_S = 20.0  # a driver that isn't loaded yet may need seconds
KILL_S = 2.0
RETRY_S = 60.0  # after nobody could tell
REFRESH_S = 300.0  # what other programs take changes
MIB = 1 << 20
# Left on each GPU to whatever else draws or computes there: a part of all there is.
RESERVE_PART, MIN_RESERVE_BYTES, MAX_RESERVE_BYTES = 16, 256 * MIB, 1024 * MIB

# Where layers lie that are to lie on a GPU: "nowhere" is known, "unknown" isn't, "asking" is soon.
Place: TypeAlias = Literal["gpu", "host", "nowhere", "unknown", "asking"]


@dataclass(frozen=True, slots=True)
class GpuRoom:
    """Bytes of a GPU: what engines may take now, and at most."""

    budget_bytes: int
    limit_bytes: int


class Question(Protocol):
    """What is asked somewhere else while whoever asks goes on."""

    def is_over(self) -> bool:
        """Whether there is an answer, or none will come; returns at once."""

    def devices(self) -> tuple[Device, ...] | None:
        """What was answered when it is over; None: nobody can tell."""


class Gpus:
    """Asks with `ask` when somebody first wants layers on a GPU: before that no engine uses one, so
    what isn't free then is other programs'. Asks again while none uses one, because that changes,
    and where nobody could tell. Without `ask` it never does: nobody can tell. For one thread.
    """

    def __init__(
        self,
        ask: Callable[[], Question] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.devices: tuple[Device, ...] | None = None
        self._ask = ask
        self._monotonic = monotonic
        self._question: Question | None = None
        self._was_answered = ask is None
        self._is_wanted = False
        self._is_spoiled = False  # an engine took some while it was asked
        self._due_ts = -math.inf

    def look(self, *, is_used: bool) -> None:
        """Ask, or see whether there is an answer; to be called often, returns at once. `is_used`:
        whether any engine has layers on a GPU."""
        if self._question is not None:
            self._is_spoiled |= is_used
            if self._question.is_over():
                self._take(self._question.devices())
            return
        if self._ask is None or not self._is_wanted or self._monotonic() < self._due_ts:
            return
        if self.devices is None or (self._own() and not is_used):
            self._is_wanted, self._is_spoiled = False, is_used
            try:
                self._question = self._ask()
            except OSError as error:
                log.warning("nobody can be asked what GPUs there are: %s", error)
                self._take(None)

    def place(self) -> Place:
        """Where layers lie that are to lie on a GPU; "asking": `look` will know."""
        self._is_wanted = True
        if self.devices is None:
            return "unknown" if self._was_answered else "asking"
        # llama.cpp takes GPUs with memory of their own where there are any.
        kinds = {device.kind for device in self.devices}
        return "gpu" if "gpu" in kinds else "host" if "integrated" in kinds else "nowhere"

    def rooms(self, most_mib: int) -> list[GpuRoom]:
        """Of each GPU; where somebody has decided `most_mib` (0: nobody), of all together. None
        at all: memory of GPUs isn't counted."""
        if most_mib:
            return [GpuRoom(most_mib * MIB, most_mib * MIB)]
        return [room_of(gpu) for gpu in self._own()]

    def spread(
        self, num_bytes: int, *, shares: Sequence[float] = (), only: int | None = None
    ) -> tuple[int, ...]:
        """How much of a model lies on each GPU: by `shares`, all of it on `only`, or as llama.cpp
        does by itself, by what is free."""
        own = self._own()
        if len(own) < 2:
            return (num_bytes,)
        if only is not None:
            parts = [float(number == min(only, len(own) - 1)) for number in range(len(own))]
        else:
            parts = [float(share) for share in (*shares, *[0] * len(own))][: len(own)]
            if not any(parts):
                parts = [max(1.0, gpu.free_bytes) for gpu in own]
        return tuple(int(num_bytes * part / sum(parts)) for part in parts)

    @property
    def line(self) -> str:
        """For `told`, "" where nobody knows any."""
        return "" if self.devices is None else encode_devices(self.devices)

    def _own(self) -> list[Device]:
        """Those with memory of their own."""
        return [device for device in self.devices or () if device.kind == "gpu"]

    def _take(self, devices: tuple[Device, ...] | None) -> None:
        self._question, self._was_answered = None, True
        self._due_ts = self._monotonic() + (RETRY_S if devices is None else REFRESH_S)
        # What engines have taken isn't free either, but better counted so than not at all.
        if devices is not None and (self.devices is None or not self._is_spoiled):
            self.devices = devices


def room_of(gpu: Device) -> GpuRoom:
    """All that is free and not left to others."""
    part = gpu.total_bytes // RESERVE_PART
    reserve = min(MAX_RESERVE_BYTES, max(MIN_RESERVE_BYTES, part))
    return GpuRoom(max(0, gpu.free_bytes - reserve), max(0, gpu.total_bytes - reserve))


def told(line: str) -> Gpus:
    """As somebody else knows them (`Gpus.line`); asks nobody."""
    gpus = Gpus()
    try:
        gpus.devices = decode_devices(line) if line else None
    except DecodeError:
        log.warning("a heartbeat's line of devices can't be read")
    return gpus


class DevicesChild:
    """A child of its own that asks. See `Question`; start it from the main thread."""

    def __init__(self) -> None:
        self._child = ChildProcess("devices", MODULE, str(os.getpid()), answers=True)

    def is_over(self) -> bool:
        """Whether it has ended, or doesn't when it is killed."""
        if self._child.poll() is not None:
            return True
        if self._child.lived_s > ASK_S:
            self._child.kill()
        return self._child.lived_s > ASK_S + KILL_S

    def devices(self) -> tuple[Device, ...] | None:
        """What it has found."""
        try:
            if self._child.poll() == 0:
                devices = decode_devices(self._child.answer)
                log.info("devices: %s", ", ".join(f"{d.name} ({d.title})" for d in devices))
                return devices
        except DecodeError:
            log.warning("the devices child said what can't be read")
        log.warning("nobody can tell what GPUs there are; their memory isn't counted")
        return None


unasked = Gpus()  # for processes that start no children
