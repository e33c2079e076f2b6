"""How much memory this machine, or the container around us, can still give. Linux."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")  # version 2


@dataclass(frozen=True, slots=True)
class Ram:
    """In bytes. `available`: without swapping; the page cache can be taken back and counts in."""

    total: int
    available: int


def read_ram(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> Ram | None:
    """As it is now; None where nobody can tell."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        total, available = (
            int(lines[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable")
        )
    except (OSError, ValueError, KeyError, IndexError):
        return None
    bound = _number(cgroup / "memory.max")
    if bound is not None and bound < total:
        used = max(0, (_number(cgroup / "memory.current") or 0) - _reclaimable(cgroup))
        total, available = bound, min(available, max(0, bound - used))
    return Ram(total, available)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return None


def _reclaimable(cgroup: Path) -> int:
    try:
        rows = (line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        return sum(int(row[1]) for row in rows if row[0] in ("active_file", "inactive_file"))
    except (OSError, ValueError, IndexError):
        return 0
