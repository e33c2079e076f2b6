"""Run a long command and say so: a line at its start, one every 15 s, one at its end.

The command's own output goes to a file; its last lines are shown when it fails. Nothing here
needs a terminal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

HEARTBEAT_S = 15.0
POLL_S = 0.1
QUICK_S = 2.0  # a step faster than this needs no second line
STOP_WAIT_S = 5.0
TAIL_LINES = 40
TAIL_BYTES = 64 * 1024
CHILD = Path(__file__).with_name("child.py")


class StepError(Exception):
    """A step failed; the message holds the end of its output and where the rest is."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Another title for the heartbeat from the moment `marker` shows up in the output."""

    marker: str
    title: str


@dataclass(frozen=True, slots=True)
class Step:
    """One command. `title` reads after nothing: "installing the Python packages"."""

    title: str
    command: Sequence[str]
    log: Path
    cwd: Path
    env: Mapping[str, str]
    phases: Sequence[Phase] = ()
    hint: str = ""


def say(line: str) -> None:
    """One line for the person who waits; at once, whatever standard output is."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run_step(step: Step, heartbeat_s: float = HEARTBEAT_S) -> None:
    """Run `step` to its end.

    Raises:
        StepError: it failed or can't be started.
        SystemExit: we were asked to stop; the command and its children are gone.
    """
    say(f"· {step.title} …")
    start_ts = time.monotonic()
    step.log.parent.mkdir(parents=True, exist_ok=True)
    with step.log.open("wb") as output, _Stoppable() as stoppable:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(CHILD), "--", *step.command],
            cwd=step.cwd,
            env={**step.env, "CHILD_OF": str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        _wait(step, process, stoppable, start_ts, heartbeat_s)
    took_s = time.monotonic() - start_ts
    if process.returncode != 0:
        raise StepError(_failure(step, process.returncode))
    if took_s > QUICK_S:
        say(f"  {step.title}: done in {took_s:.0f} s")


def _wait(
    step: Step,
    process: subprocess.Popen[bytes],
    stoppable: _Stoppable,
    start_ts: float,
    heartbeat_s: float,
) -> None:
    next_ts = start_ts + heartbeat_s
    while process.poll() is None:
        if stoppable.signal is not None:
            stop_group(process)
            raise SystemExit(128 + stoppable.signal)
        if time.monotonic() >= next_ts:
            say(f"  {_phase_title(step)} … {time.monotonic() - start_ts:.0f} s")
            next_ts += heartbeat_s
        time.sleep(POLL_S)


def _phase_title(step: Step) -> str:
    output = read_tail(step.log)
    title = step.title
    for phase in step.phases:
        if phase.marker in output:
            title = phase.title
    return title


def _failure(step: Step, status: int) -> str:
    lines = read_tail(step.log).splitlines()[-TAIL_LINES:]
    shown = "\n".join(f"    {line}" for line in lines)
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    hint = f"\n{step.hint}" if step.hint else ""
    return f"{step.title} failed ({how}):\n{shown}\n  The whole output: {step.log}{hint}"


def read_tail(path: Path) -> str:
    """The last 64 KiB of a file as text; empty when there is none."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - TAIL_BYTES))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""


def stop_signals() -> tuple[signal.Signals, ...]:
    """What ends us. Not a closing terminal, when we were started under nohup."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return (signal.SIGINT, signal.SIGTERM)
    return (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group, and the group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(STOP_WAIT_S)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


class _Stoppable:
    """While entered, SIGINT, SIGTERM and SIGHUP are noted in `signal` instead of killing us."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Stoppable:
        for number in stop_signals():
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
