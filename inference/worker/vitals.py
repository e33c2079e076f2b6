"""What a heartbeat tells people besides the engine's counters: rates, memory, age."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping

RATE_OVER_S = 2.0  # counters of about that long ago are compared with
TELL_EVERY_S = 0.25  # how far a load is
RATES = {"tokens_per_s": "generated_tokens", "prompt_tokens_per_s": "prompt_tokens"}
Info = dict[str, float | int | str]


class Vitals:
    """Ask `of` with each heartbeat; it keeps the counters of the last moments."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._started_ts = monotonic()
        self._seen: list[tuple[float, dict[str, float]]] = []

    def of(self, stats: Mapping[str, float | int | str]) -> Info:
        """`tokens_per_s`, `prompt_tokens_per_s` (of the last seconds), `memory_bytes` (resident),
        `uptime_s`, `pid`."""
        now = self._monotonic()
        counters = {name: float(stats.get(name, 0)) for name in RATES.values()}
        while len(self._seen) > 1 and now - self._seen[1][0] >= RATE_OVER_S:
            self._seen.pop(0)
        rates: Info = dict.fromkeys(RATES, 0.0)
        if self._seen and now > self._seen[0][0]:
            then, before = self._seen[0]
            for name, counter in RATES.items():
                rates[name] = round((counters[counter] - before[counter]) / (now - then), 1)
        if not self._seen or now > self._seen[-1][0]:
            self._seen.append((now, counters))
        uptime_s = round(now - self._started_ts, 1)
        return rates | {"memory_bytes": memory_bytes(), "uptime_s": uptime_s, "pid": os.getpid()}


class LoadProgress:
    """How far the load is. `tell` hears it often, and has it beaten every `TELL_EVERY_S` at most;
    its answer is what `is_wanted` says."""

    def __init__(
        self,
        *,
        beat: Callable[[], None],
        is_wanted: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._beat = beat
        self._is_wanted = is_wanted
        self._monotonic = monotonic
        self._share: float | None = None
        self._told: float | None = None
        self._next_ts = -math.inf

    def tell(self, share: float) -> bool:
        """See `inference.engine.loading.OnLoad`."""
        self._share = round(min(max(share, self._share or 0.0), 1.0), 3)
        now = self._monotonic()
        if self._share != self._told and now >= self._next_ts:
            self._told, self._next_ts = self._share, now + TELL_EVERY_S
            self._beat()
        return self._is_wanted()

    def info(self) -> Info:
        """`load_progress`, 0 to 1; nothing where nobody has said it."""
        share = self._share
        return {} if share is None else {"load_progress": share}


def memory_bytes() -> int:
    """What of this process is in memory, mapped model files included; 0 if nobody can tell."""
    try:
        with open("/proc/self/statm", "rb") as stream:  # noqa: PTH123
            pages = int(stream.read(128).split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
