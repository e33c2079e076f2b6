"""When a dead engine or trial starts again, and how. Pure: it knows exits and clock readings only.

| exit | next |
|---|---|
| 0 | at once: it was drained (a restart was asked for) |
| SIGILL, extra CPU buffers on | at once, with the buffers off; the machine is remembered |
| "can't be served" (3) | after `UNSERVABLE_RETRY_S`: somebody may put the file right |
| anything else | after 1, 2, 4 … `MAX_DELAY_S` seconds; from 1 again after `STEADY_S` of life |

One that ends before it was ready couldn't be loaded. That is tried once more, "can't be served"
only if memory was the cause; then what waits is told, and it rests for `UNSERVABLE_RETRY_S`.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace

from inference.protocol.spec import EXIT_UNSERVABLE

MIN_DELAY_S = 1.0
MAX_DELAY_S = 30.0
STEADY_S = 60.0
UNSERVABLE_RETRY_S = 20.0
# What processes say that got no memory. A killed one says nothing: that is how the kernel takes it.
SHORT_WORDS = (
    "no context of",
    "out of memory",
    "cannot allocate",
    "failed to allocate",
    "memoryerror",
)


@dataclass(frozen=True, slots=True)
class Restart:
    """The state of one engine's restarts. `is_unservable`: nothing can serve what waits.
    `failed_loads`: in a row. `is_short`: the last of them for want of memory."""

    delay_s: float = 0.0
    failures: int = 0
    use_extra_bufts: bool = True
    is_unservable: bool = False
    reason: str = ""
    failed_loads: int = 0
    is_short: bool = False


def after_exit(
    state: Restart, *, exit_code: int, lived_s: float, last_line: str, was_ready: bool = True
) -> Restart:
    """The state after an engine ended with `exit_code` (negative: a signal) after `lived_s`."""
    if exit_code == 0:
        return replace(state, delay_s=0.0, failures=0, is_unservable=False, reason="drained")
    if exit_code == -signal.SIGILL and state.use_extra_bufts:
        return replace(
            state,
            delay_s=0.0,
            use_extra_bufts=False,
            is_unservable=False,
            reason="illegal instruction; started again with the extra CPU buffers off",
        )
    if not was_ready:
        return _after_failed_load(state, exit_code, last_line)
    if exit_code == EXIT_UNSERVABLE:
        return replace(
            state, delay_s=UNSERVABLE_RETRY_S, failures=0, is_unservable=True, reason=last_line
        )
    failures = 1 if lived_s >= STEADY_S else state.failures + 1
    delay = min(MAX_DELAY_S, MIN_DELAY_S * 2.0 ** min(failures - 1, 10))
    return replace(
        state,
        delay_s=delay,
        failures=failures,
        is_unservable=False,
        reason=f"engine died ({exit_cause(exit_code)}), started again in {delay:.0f} s",
    )


def after_ready(state: Restart) -> Restart:
    """The state once an engine can take requests: loads that failed before are forgotten."""
    return replace(state, failed_loads=0, is_short=False)


def is_short(exit_code: int, last_line: str) -> bool:
    """Whether a process that ended so had too little memory."""
    if exit_code == -signal.SIGKILL:
        return True
    line = last_line.lower()
    return any(words in line for words in SHORT_WORDS)


def _after_failed_load(state: Restart, exit_code: int, last_line: str) -> Restart:
    short = is_short(exit_code, last_line)
    cause = last_line if exit_code == EXIT_UNSERVABLE else f"it died ({exit_cause(exit_code)})"
    if not state.failed_loads and (short or exit_code != EXIT_UNSERVABLE):
        return replace(
            state,
            delay_s=MIN_DELAY_S,
            failures=state.failures + 1,
            is_unservable=False,
            reason=f"it couldn't be loaded and is tried once more: {cause}",
            failed_loads=1,
            is_short=short,
        )
    return replace(
        state,
        delay_s=UNSERVABLE_RETRY_S,
        failures=0,
        is_unservable=True,
        reason=f"{cause}; twice" if state.failed_loads else cause,
        failed_loads=0,
        is_short=short,
    )


def exit_cause(exit_code: int) -> str:
    """What a process died of, in words: the signal in a negative exit code."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"
