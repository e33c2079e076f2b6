"""The cores this process may use, and how much of them others use. Linux; unknown elsewhere."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

PROC_STAT = Path("/proc/stat")
CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # version 2; "max 100000" or "150000 100000"
# Columns of a `cpuN` line in proc(5): user nice system idle iowait irq softirq; what follows is
# time that other machines took (steal), or counted in user already (guest).
BUSY_COLUMNS = (1, 2, 3, 6, 7)


def num_cores(quota: Path = CGROUP_QUOTA) -> int:
    """Cores that this process may be scheduled on, no more than its container may use up."""
    allowed = len(os.sched_getaffinity(0))
    try:
        most, period = quota.read_text().split()
        return max(1, min(allowed, math.ceil(int(most) / int(period))))
    except (OSError, ValueError):  # no such file, or no bound
        return allowed


@dataclass(frozen=True, slots=True)
class _Reading:
    taken_ts: float
    busy_s: float
    own_s: float


class CoreMeter:
    """What other processes use of the cores that this one may be scheduled on."""

    def __init__(self, stat: Path = PROC_STAT) -> None:
        self._stat = stat
        self._names = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        self._tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        self._last = self._read()

    def used_by_others(self) -> float | None:
        """Cores in use by others since the last call, on average; None where nobody can tell."""
        last, self._last = self._last, self._read()
        return _used_between(last, self._last)

    def used_now(self, seconds: float) -> float | None:
        """As `used_by_others`, during the next `seconds`; the other's last call stays its last."""
        first = self._read()
        time.sleep(seconds)
        return _used_between(first, self._read())

    def _read(self) -> _Reading | None:
        try:
            text = self._stat.read_text()
        except OSError:
            return None
        rows = [line.split() for line in text.splitlines() if line.startswith("cpu")]
        ours = [row for row in rows if row[0] in self._names]
        if not ours:
            return None
        ticks = sum(int(row[column]) for row in ours for column in BUSY_COLUMNS)
        return _Reading(time.monotonic(), ticks * self._tick_s, time.process_time())


def _used_between(first: _Reading | None, last: _Reading | None) -> float | None:
    if first is None or last is None:
        return None
    wall_s = last.taken_ts - first.taken_ts
    if wall_s <= 0:
        return None
    return max(0.0, last.busy_s - first.busy_s - (last.own_s - first.own_s)) / wall_s
