"""A failed test of whole servers is run once more, alone: `--second-look`, as CI does.

Those tests wait for real processes on a machine that may do other things; what passes alone is told
as flaky, which is a fault to be mended, not a reason to hold a change up. Tests of everything else
get no second look.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MAX_FILES = 3  # more that fail at once are no accident
TIMEOUT_S = 15 * 60
ROOT = Path(__file__).resolve().parent.parent


class SecondLook:
    """Collects what failed; at the end decides whether it was an accident."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._has_other = False
        self._flaky: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """See pytest."""
        if not report.failed:
            return
        if "stack" in report.keywords:
            self._files.add(report.nodeid.partition("::")[0])
        else:
            self._has_other = True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """See pytest."""
        self._has_other = self._has_other or report.failed

    @pytest.hookimpl(trylast=True)  # the workers have ended
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """See pytest."""
        is_failed = session.exitstatus == pytest.ExitCode.TESTS_FAILED
        if not is_failed or self._has_other or not 0 < len(self._files) <= MAX_FILES:
            return
        files = sorted(self._files)
        print(f"\nsecond look at: {' '.join(files)}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", *files]
        if subprocess.run(command, cwd=ROOT, timeout=TIMEOUT_S).returncode == 0:
            self._flaky = files
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """See pytest."""
        for name in self._flaky:
            terminalreporter.write_line(f"FLAKY {name}: passed when it was run alone", yellow=True)
