"""What a model waits for, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inference.protocol.reasons import Other

if TYPE_CHECKING:
    from inference.supervisor.placement import Model

MAX_NAMED = 3  # models named in a reason


def size_text(num_bytes: int) -> str:
    """Such as "1.5 GiB" or "300 MiB"."""
    if num_bytes < 1 << 30:
        return f"{num_bytes / (1 << 20):.0f} MiB"
    return f"{num_bytes / (1 << 30):.1f} GiB"


def named(models: Sequence[Model]) -> list[str]:
    """All of them; pieces of a reason."""
    return _listed([[Other(name)] for name in sorted(model.name for model in models)])


def holders(models: Sequence[Model], leaving: Sequence[Model]) -> list[str]:
    """Why `models` are still where room is needed; those in `leaving` have been told to leave."""
    pieces = [
        [Other(other.name), f" {_why_there(other, is_leaving=other in leaving)}"]
        for other in models[:MAX_NAMED]
    ]
    more = [f" and {len(models) - MAX_NAMED} more"] if len(models) > MAX_NAMED else []
    return [*_listed(pieces), *more]


def _listed(items: Sequence[Sequence[str]]) -> list[str]:
    found: list[str] = []
    for item in items:
        found += [", ", *item] if found else item
    return found


def _why_there(other: Model, *, is_leaving: bool) -> str:
    requests = f"{other.num_running} request{'s' if other.num_running != 1 else ''}"
    if is_leaving:
        return f"ends its last {requests}" if other.num_running else "is being unloaded"
    if other.num_running:
        return f"is answering {requests}"
    if other.state in ("loading", "renewing", "off"):  # off: it is started in this very round
        return "is loading"
    if other.is_asked:
        return "has requests to answer"
    return "is pinned" if other.is_pinned else "was just loaded"
