"""What a metric is: one value for the registry and for the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "llamaweb"  # of every metric's name


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric."""

    name: str
    kind: Literal["histogram", "counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ("model",)
