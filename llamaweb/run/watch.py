"""`make dev`: notice changed Python files."""

from __future__ import annotations

import time
from pathlib import Path

SCAN_S = 1.0
PACKAGES = ("llamaweb", "inference", "conversations", "tools_api", "frontend")
# What an engine process is made of; any other change leaves the loaded model alone.
ENGINE_PARTS = tuple(
    f"inference/{part}/"
    for part in ("engine", "protocol", "queues", "supervisor", "text", "worker")
)


class SourceWatch:
    """`changed` names the programs to start again; it looks once a second at most."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._times = self._scan()
        self._scanned_ts = time.monotonic()

    def changed(self) -> tuple[str, ...]:
        """Programs whose code was changed since the last call."""
        if time.monotonic() - self._scanned_ts < SCAN_S:
            return ()
        before, self._times = self._times, self._scan()
        self._scanned_ts = time.monotonic()
        names = {name for name, _ in before.items() ^ self._times.items()}
        if not names:
            return ()
        with_engine = any(name.startswith(ENGINE_PARTS) for name in names)
        return ("web", "jobs", "beat", "supervisor") if with_engine else ("web", "jobs", "beat")

    def _scan(self) -> dict[str, int]:
        times = {}
        for package in PACKAGES:
            for path in self._files(self.root / package):
                try:
                    times[path.relative_to(self.root).as_posix()] = path.stat().st_mtime_ns
                except FileNotFoundError:
                    continue
        return times

    def _files(self, folder: Path) -> list[Path]:
        if folder.name == "frontend":  # its packages are thousands of files
            return list(folder.glob("*.py"))
        return list(folder.rglob("*.py"))
