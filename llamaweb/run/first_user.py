"""Find out whether the instance needs its first administrator, and get the link that makes one.

Django runs in a process of its own (this one stays small) and beside the start of the server. The
link goes through a pipe to the console and into no file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from llamaweb.run.programs import ROOT
from llamaweb.run.steps import CHILD

TIMEOUT_S = 60.0
VALID = "works once, for one hour"


class FirstUser(threading.Thread):
    """Asks once. `link` is set when `is_done`: "" means that there is an administrator."""

    def __init__(self, environ: Mapping[str, str], log: Path) -> None:
        super().__init__(name="first-user", daemon=True)
        self.link = ""
        self.has_failed = False
        self._environ = environ
        self._log = log
        self._done = threading.Event()

    @property
    def is_done(self) -> bool:
        """Whether the answer is there."""
        return self._done.is_set()

    def run(self) -> None:
        """Ask and keep the answer."""
        try:
            self.link = self._ask()
        except (OSError, subprocess.SubprocessError):
            self.has_failed = True
        finally:
            self._done.set()

    def line(self, python: str) -> str:
        """What to tell about the first user; "" when there is nothing."""
        if self.has_failed:
            return f"  first user: {python} manage.py setup_link"
        return f"  first user: {self.link} ({VALID})" if self.link else ""

    def _ask(self) -> str:
        command = [sys.executable, "-I", "-S", str(CHILD), "--"]
        command += [sys.executable, str(ROOT / "manage.py"), "setup_link", "--quiet"]
        with self._log.open("wb") as errors:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env={**self._environ, "CHILD_OF": str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                timeout=TIMEOUT_S,
                check=False,
            )
        # Its status may be the manager's catch, which waits for every child: errors are told apart
        # by what was written.
        if done.returncode != 0 or (not done.stdout and self._log.stat().st_size):
            raise subprocess.SubprocessError("setup_link failed")
        return done.stdout.decode(errors="replace").strip()
