"""How far a load is, said while it goes on; whoever hears it may break the load off."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from llamaweb.lib.errors import StoppedError

# Hears what share is loaded, 0 to 1, often and from the thread that loads; says whether to go on.
OnLoad: TypeAlias = Callable[[float], bool]


class LoadStoppedError(StoppedError):
    """Whoever hears of the load doesn't want it any more."""

    def __init__(self) -> None:
        super().__init__("the load was stopped")


def go_on(share: float) -> bool:
    """For whoever waits to the end."""
    return True


def say(on_load: OnLoad, share: float) -> None:
    """Tell `share` at a place where the load can end.

    Raises:
        LoadStoppedError: it is to end.
    """
    if not on_load(share):
        raise LoadStoppedError
