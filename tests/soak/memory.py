"""Memory of this process and its children, from /proc."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

MIB = 1 << 20


def memory_mib() -> tuple[float, float]:
    """(resident, own) of this process and its children. Own: neither a file's nor shared, that is
    what was allocated; it doesn't move with what other processes do."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    resident = own = 0
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            resident += process.memory_info().rss
            own += _own_bytes(process.pid)
    return resident / MIB, own / MIB


def _own_bytes(pid: int) -> int:
    wanted = {"Private_Dirty:", "Swap:"}
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.split()[0] in wanted)
