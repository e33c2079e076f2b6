"""One engine as a child process: started with a spec on its standard input and little else."""

from __future__ import annotations

import collections
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from inference.protocol.spec import EngineSpec, encode_spec

log = logging.getLogger(__name__)

LOG_TAIL_LINES = 50
LOG_LINE_LEN = 500
# What an engine inherits: how to find its libraries and how to spin, no settings, no secrets.
KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "HOME", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
KEPT_PREFIXES = ("OMP_", "GOMP_", "GGML_", "KMP_", "OPENBLAS_")
ROOT = Path(__file__).resolve().parents[2]


def scrubbed_environment() -> dict[str, str]:
    """The environment of an engine."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT_ENVIRONMENT or name.startswith(KEPT_PREFIXES)
    }
    # ggml would start a debugger on itself when it aborts: slow, and its output holds prompts.
    quiet = {"GGML_NO_BACKTRACE": "1"}
    return {**kept, **quiet, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


class EngineProcess:
    """A started engine. Start it from the supervisor's main thread: the kernel ties the child's
    death signal to the thread that made it."""

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec
        self.started_ts = time.monotonic()
        self._tail: collections.deque[str] = collections.deque(maxlen=LOG_TAIL_LINES)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "inference.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=scrubbed_environment(),
            cwd=ROOT,
            close_fds=True,
        )
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode_spec(spec).encode())
            self._process.stdin.close()
        except BrokenPipeError:
            log.warning("engine %s ended before it read its spec", spec.engine_id)
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def lived_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started_ts

    @property
    def log_tail(self) -> tuple[str, ...]:
        """The last lines it wrote."""
        return tuple(self._tail)

    @property
    def last_line(self) -> str:
        """What it said last, without the mark of a fatal line."""
        fatal = [line for line in self._tail if line.startswith("FATAL ")]
        line = fatal[-1] if fatal else (self._tail[-1] if self._tail else "")
        return line.removeprefix("FATAL ")

    def poll(self) -> int | None:
        """Exit code (negative: a signal), or None while it lives."""
        code = self._process.poll()
        if code is not None:
            self._reader.join(timeout=1.0)
        return code

    def terminate(self) -> None:
        """Ask it to end within seconds."""
        self._signal(signal.SIGTERM)

    def drain(self) -> None:
        """Ask it to take nothing more and to end when what runs has ended."""
        self._signal(signal.SIGUSR1)

    def kill(self) -> None:
        """End it now."""
        self._signal(signal.SIGKILL)

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended within `timeout_s`."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for raw in self._process.stderr:
            line = raw.decode(errors="replace").rstrip()[:LOG_LINE_LEN]
            self._tail.append(line)
            level = logging.WARNING if line.startswith(("FATAL", "ERROR")) else logging.INFO
            log.log(level, "[%s] %s", self.spec.model, line)
