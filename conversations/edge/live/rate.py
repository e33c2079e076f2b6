"""A bound on how often something may be done, on one connection."""

from __future__ import annotations

import time


class Rate:
    """`burst` at once, `per_s` in the long run."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = burst
        self._at_ts = time.monotonic()

    def take(self) -> bool:
        """Do it once; False if that is too often."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at_ts) * self._per_s)
        self._at_ts = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
