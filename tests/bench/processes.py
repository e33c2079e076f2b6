"""CPU time and memory of processes and threads, from /proc."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.stack import MARKS, Stack

KIB = 1024
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """MiB. `pss` counts a page shared by n processes 1/n; None: this user may not see it."""

    name: str
    rss: float
    pss: float | None


def memory_of(process: psutil.Process, name: str) -> Memory:
    """What `process` holds now."""
    rss = process.memory_info().rss / MIB
    return Memory(name, rss, _pss(process.pid))


def memory_of_stack(stack: Stack) -> list[Memory]:
    """Every process of an instance, by name; the largest first."""
    names = {process.pid: name for name in MARKS for process in stack.processes(name)}
    found = []
    for process in stack.snapshot():
        with contextlib.suppress(psutil.Error):
            found.append(memory_of(process, names.get(process.pid) or _other_name(process)))
    return sorted(found, key=lambda memory: -memory.rss)


def _other_name(process: psutil.Process) -> str:
    """What it was started with: the templates' child, for one."""
    words = [word for word in process.cmdline() if not word.startswith("-")]
    return Path(words[-1]).name[:40] if words else process.name()


def cpu_s(processes: Iterable[psutil.Process]) -> float:
    """CPU seconds that living processes have used."""
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def exact_cpu_s(processes: Iterable[psutil.Process]) -> float:
    """As `cpu_s`, without ticks; threads that have ended no longer count."""
    return sum(sum(threads_cpu_s(process.pid).values()) for process in processes)


def own_thread_cpu_s() -> float:
    """CPU seconds of this process's threads but the one that asks."""
    return sum(cpu for tid, cpu in threads_cpu_s(os.getpid()).items() if tid != _own_tid())


def threads_cpu_s(pid: int) -> dict[int, float]:
    """CPU seconds by thread id, as the scheduler counts them (no ticks)."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return found


def _own_tid() -> int:
    return threading.get_native_id()


def _pss(pid: int) -> float | None:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * KIB / MIB
    return None
