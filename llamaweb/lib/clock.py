"""Clocks as values, so that tests can drive time.

`*_at` is wall time (seconds since the epoch, for display and for deadlines that cross processes);
`*_ts` is monotonic time of this process. Subtract only clocks of the same kind and process.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall and monotonic time, both in seconds."""

    def wall(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary point, never going back."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall(self) -> float:
        """See `Clock.wall`."""
        return time.time()

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told; both faces move together."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.now = start

    def wall(self) -> float:
        """See `Clock.wall`."""
        return self.now

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move both faces forward."""
        self.now += seconds
