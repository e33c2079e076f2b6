"""What a devices child tells the supervisor: JSON in one line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from inference.protocol.codec import DecodeError, from_plain, to_plain

DeviceKind: TypeAlias = Literal["gpu", "integrated", "other"]


@dataclass(frozen=True, slots=True)
class Device:
    """What llama.cpp can compute on. `integrated`: a GPU in the host's own memory; `other`: the CPU
    and what helps it. Bytes are those of a moment; `title` is for people."""

    name: str
    title: str
    kind: DeviceKind
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class _Devices:
    devices: tuple[Device, ...]


def encode_devices(devices: Sequence[Device]) -> str:
    """JSON text in one line."""
    return json.dumps(to_plain(_Devices(tuple(devices))), allow_nan=False)


def decode_devices(text: str | bytes) -> tuple[Device, ...]:
    """The devices in `text`.

    Raises:
        DecodeError: they can't be read.
    """
    try:
        value = from_plain(_Devices, json.loads(text))
    except ValueError as error:
        raise DecodeError(str(error)) from error
    assert isinstance(value, _Devices)
    return value.devices
