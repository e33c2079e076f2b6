"""How many threads the next batch is computed with.

The threads of a decode wait for each other by spinning. That is the fastest way on cores of their
own and the slowest on shared ones: a thread that was sent away holds up all others, which burn the
cores that somebody else wants. So an engine gives up as many threads as others use cores, and takes
them back when those are free again.

The cores are watched all the time, also while there is nothing to compute: the first batch after a
pause already gives up what others use, and so does one that takes seconds because it hadn't. What
was given up comes back after a second of free cores; before the first batch after a pause a short
look is enough, for it costs less than a prompt computed with too few threads.
"""

from __future__ import annotations

import math
import threading
from typing import Protocol

from inference.engine.backend import Backend

LOOK_S = 0.25  # between two looks at the cores
TAKEN_SHARE = 0.5  # of a core in use by others: computing without it is faster then
FREE_SHARE = 0.25  # no more than that in use: it is worth having again
LOOKS_TO_GIVE, LOOKS_TO_TAKE = 2, 4  # in a row; between the two nothing changes
END_S = 2.0  # a look is over long before
PAUSE_S = 0.25  # without a batch: who comes now may find other cores free than the last one
SHORT_LOOK_S = 0.03  # three ticks of the kernel's clock


class Meter(Protocol):
    """See `CoreMeter`."""

    def used_by_others(self) -> float | None:
        """Cores in use by others since the last call."""
        ...

    def used_now(self, seconds: float) -> float | None:
        """Cores in use by others during the next `seconds`."""
        ...


class ThreadGovernor:
    """Decides from looks at the cores.

    `start` makes a thread look every `LOOK_S`, until `close`.
    """

    def __init__(self, most: int, *, cores: int, meter: Meter) -> None:
        self._most = most
        self._cores = cores
        self._meter = meter
        self._looks = 0  # in a row that ask for fewer (below 0) or more threads
        self._ends = threading.Event()
        self._watch: threading.Thread | None = None
        self.num_threads = most

    def start(self) -> None:
        """Look from now on."""
        self._watch = threading.Thread(target=self._look_on, name="cores", daemon=True)
        self._watch.start()

    def close(self) -> None:
        """No more looks."""
        self._ends.set()
        if self._watch is not None:
            self._watch.join(END_S)

    def look(self) -> None:
        """What others used since the last look changes `num_threads`, if it is the same a few
        times in a row."""
        used = self._meter.used_by_others()
        if used is None:
            return
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

    def look_now(self) -> None:
        """A short look, which takes `SHORT_LOOK_S`, gives back what others don't use any more;
        nothing is to be computed meanwhile."""
        if self.num_threads == self._most:
            return
        used = self._meter.used_now(SHORT_LOOK_S)
        if used is not None:
            # A tick is a third of a core here: more than what counts as free in a longer look.
            self.num_threads = max(self.num_threads, self._fitting(used, TAKEN_SHARE))

    def _look_on(self) -> None:
        while not self._ends.wait(LOOK_S):
            self.look()

    def _fitting(self, used: float, share: float) -> int:
        """Threads that find a core of which others use no more than `share`."""
        free = int(self._cores - used + share)
        return max(1, min(self._most, free))


class ThreadsInUse:
    """What a backend computes with: as many threads as its governor says, if it has one."""

    def __init__(self, backend: Backend, governor: ThreadGovernor | None) -> None:
        self.num = backend.num_threads
        self._backend = backend
        self._governor = governor
        self._computed_ts = -math.inf  # or looked at

    @property
    def is_governed(self) -> bool:
        """Whether the number may change."""
        return self._governor is not None

    def follow(self, now: float) -> None:
        """Before a batch; `now`: monotonic."""
        if self._governor is None:
            return
        if now - self._computed_ts > PAUSE_S:
            self._computed_ts = now  # one look a pause, also where it goes on
            self._governor.look_now()
        if self._governor.num_threads != self.num:
            self.num = self._governor.num_threads
            self._backend.use_threads(self.num)

    def computed(self, now: float) -> None:
        """After a batch."""
        self._computed_ts = now

    def close(self) -> None:
        """Before the backend is closed."""
        if self._governor is not None:
            self._governor.close()
