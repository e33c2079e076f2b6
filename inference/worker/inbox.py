"""What the other threads tell the engine loop: plain values, in order.

Each names the lease it means by its epoch: by the time it is read, the same generation may be
here again under a newer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from inference.engine.contract import Prepared
from inference.protocol.events import CancelledBy, Failed


@dataclass(frozen=True, slots=True)
class Add:
    """Take this sequence in; it belongs to the lease with `epoch`."""

    request: Prepared
    epoch: int


@dataclass(frozen=True, slots=True)
class Abort:
    """End a sequence on request, also one that is still on its way to the engine."""

    generation_id: str
    epoch: int
    by: CancelledBy


@dataclass(frozen=True, slots=True)
class Fail:
    """End a sequence with an error that isn't the engine's; the usage is filled in."""

    generation_id: str
    epoch: int
    failure: Failed


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget a sequence: its lease is another's now."""

    generation_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class EndReasoning:
    """Have a sequence's reasoning end; told again until it has ended."""

    generation_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Purge:
    """Forget what the prompt cache holds of an owner or a conversation; all of it without."""

    owner_key: str | None = None
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class Wake:
    """Nothing to do but look around (a drain began)."""


Order: TypeAlias = Add | Abort | Fail | Drop | EndReasoning | Purge | Wake
