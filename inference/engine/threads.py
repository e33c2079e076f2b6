"""How many threads the next batch is computed with.

The threads of a decode wait for each other by spinning. That is the fastest way on cores of their
own and the slowest on shared ones: a thread that was sent away holds up all others, which burn the
cores that somebody else wants. So an engine gives up as many threads as others use cores, and takes
them back when those are free again.
"""

from __future__ import annotations

from collections.abc import Callable

from llamaweb.lib.clock import Clock

LOOK_S = 0.25  # between two looks at the cores
TAKEN_SHARE = 0.5  # of a core in use by others: computing without it is faster then
FREE_SHARE = 0.25  # no more than that in use: it is worth having again
LOOKS_TO_GIVE, LOOKS_TO_TAKE = 2, 4  # in a row; between the two nothing changes


class ThreadGovernor:
    """Decides from looks at the cores; `used_by_others` as `CoreMeter.used_by_others`."""

    def __init__(
        self,
        most: int,
        *,
        cores: int,
        used_by_others: Callable[[], float | None],
        clock: Clock,
    ) -> None:
        self._most = most
        self._cores = cores
        self._used_by_others = used_by_others
        self._clock = clock
        self._looked_ts = clock.monotonic()
        self._looks = 0  # in a row that ask for fewer (below 0) or more threads
        self.num_threads = most

    def look(self) -> bool:
        """Look if it is time to; whether `num_threads` changed."""
        now = self._clock.monotonic()
        if now - self._looked_ts < LOOK_S:
            return False
        is_fresh = now - self._looked_ts < 2 * LOOK_S  # else it averages over a pause
        self._looked_ts = now
        used = self._used_by_others()
        if used is None or not is_fresh:
            return False
        return self._judge(used)

    def _judge(self, used: float) -> bool:
        before = self.num_threads
        fewer = self._fitting(used, TAKEN_SHARE)
        more = self._fitting(used, FREE_SHARE)
        if fewer < before:
            self._looks = min(self._looks, 0) - 1
            if self._looks <= -LOOKS_TO_GIVE:
                self.num_threads, self._looks = fewer, 0
        elif more > before:
            self._looks = max(self._looks, 0) + 1
            if self._looks >= LOOKS_TO_TAKE:
                self.num_threads, self._looks = more, 0
        else:
            self._looks = 0
        return self.num_threads != before

    def _fitting(self, used: float, share: float) -> int:
        """Threads that find a core of which others use no more than `share`."""
        free = int(self._cores - used + share)
        return max(1, min(self._most, free))
