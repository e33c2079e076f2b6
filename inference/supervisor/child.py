"""A child process of the supervisor: told what to do on its standard input, and little else."""

from __future__ import annotations

import collections
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger(__name__)

LOG_TAIL_LINES = 50
LOG_LINE_LEN = 500
TOLD_LINES, TOLD_LEN = 40, 4000  # of a living child's log: lines, and characters in all
MAX_ANSWER_BYTES = 64 * 1024
JOIN_S = 1.0
# What a child inherits: how to find its libraries and how to spin, no settings, no secrets.
KEPT_ENVIRONMENT = (
    *("PATH", "LANG", "LC_ALL", "HOME", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),  # whose certificates an upstream may show
)
KEPT_PREFIXES = ("OMP_", "GOMP_", "GGML_", "KMP_", "OPENBLAS_")
ROOT = Path(__file__).resolve().parents[2]


def scrubbed_environment() -> dict[str, str]:
    """The environment of a child."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT_ENVIRONMENT or name.startswith(KEPT_PREFIXES)
    }
    # ggml would start a debugger on itself when it aborts: slow, and its output holds prompts.
    quiet = {"GGML_NO_BACKTRACE": "1"}
    return {**kept, **quiet, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def text_of(log_tail: Sequence[str]) -> str:
    """The last lines as one text, no line cut."""
    text = "\n".join(log_tail[-TOLD_LINES:])
    return text if len(text) <= TOLD_LEN else text[-TOLD_LEN:].partition("\n")[2]


class ChildProcess:
    """A started child. Start it from the supervisor's main thread: the kernel ties the child's
    death signal to the thread that made it.

    Args:
        name: of the model, for the log.
        module: what Python runs.
        text: all of its standard input.
        answers: whether `answer` is its standard output; thrown away otherwise.
    """

    def __init__(self, name: str, module: str, text: str, *, answers: bool = False) -> None:
        self.name = name
        self.started_ts = time.monotonic()
        self.answer = b""
        self._tail: collections.deque[str] = collections.deque(maxlen=LOG_TAIL_LINES)
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if answers else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=scrubbed_environment(),
            cwd=ROOT,
            close_fds=True,
        )
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode())
            self._process.stdin.close()
        except BrokenPipeError:
            log.warning("a child of model %s ended before it read what to do", name)
        readers = [self._read_log, self._read_answer] if answers else [self._read_log]
        self._readers = [threading.Thread(target=reader, daemon=True) for reader in readers]
        for thread in self._readers:
            thread.start()

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
            for thread in self._readers:
                thread.join(timeout=JOIN_S)
        return code

    def terminate(self) -> None:
        """Ask it to end within seconds."""
        self._signal(signal.SIGTERM)

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
        with self._process.stderr as lines:
            for raw in lines:
                line = raw.decode(errors="replace").rstrip()[:LOG_LINE_LEN]
                self._tail.append(line)
                level = logging.WARNING if line.startswith(("FATAL", "ERROR")) else logging.INFO
                log.log(level, "[%s] %s", self.name, line)

    def _read_answer(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answer:
            self.answer = answer.read(MAX_ANSWER_BYTES)
