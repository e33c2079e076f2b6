"""`python -m tests.bench gil`: who holds the interpreter lock of an engine process under load.

Two measurements, one after the other: the kernel says how much CPU each thread used, which bounds
how long it can have held the lock (most of the engine loop's is llama.cpp's, without the lock);
then py-spy looks some hundred times a second who holds it.

With the mock engine a step takes STEP_MS whatever else the machine does, which is about a step of
the starter model at 8 streams on a quiet one.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench import processes
from tests.bench.cells import run_cell
from tests.bench.figures import BenchError
from tests.bench.http_target import HttpTarget
from tests.bench.machine import load_now
from tests.bench.rounds import Plan, engine_spec
from tests.bench.sides import WARM, product_env
from tests.generated import table
from tests.stack import Stack

STEP_MS = 30
PY_SPY = Path(sys.executable).with_name("py-spy")
SAMPLES_A_S = 200
SETTLE_S = 2.0  # until every stream decodes or computes its prompt
SPY_EXTRA_S = 30.0  # start and end of py-spy
OTHERS = "llama.cpp's own"
NAMES = {"MainThread": "engine loop"}
LINE = re.compile(r"thread \((?:0x)?[0-9A-Fa-f]+\): ([^;]*);.* (\d+)$")


@dataclass(frozen=True, slots=True)
class Thread:
    """Shares of the time (lock) and of one core (CPU); `cpu_us` for each delta sent."""

    name: str
    lock: float
    cpu: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen of one process: lock samples and CPU seconds by thread name."""

    samples: Mapping[str, int]
    cpu_s: Mapping[str, float]
    num_samples: int
    num_deltas: int
    wall_s: float
    said: str


def run(plan: Plan, seconds: int, folder: Path) -> str:
    """Start a server, load it, watch its engine; the result as Markdown."""
    env = {**product_env(engine_spec(plan)), "LLAMAWEB_MOCK_DELAY_MS": str(STEP_MS)}
    with Stack(folder / "data", env=env) as stack:
        stack.wait_ready()
        target = HttpTarget(stack.base_url, stack.create_key())
        pid = stack.wait_process("engine").pid
        return render(asyncio.run(_watch(plan, target, pid, seconds, folder / "spy.raw")))


async def _watch(plan: Plan, target: HttpTarget, pid: int, seconds: int, path: Path) -> Watched:
    await run_cell(target, "distinct", 1, "warm", WARM)
    async with asyncio.TaskGroup() as group:
        load = group.create_task(_load(plan, target))
        await asyncio.sleep(SETTLE_S)
        watched = await _record(target, pid, seconds, path)
        load.cancel()
    return watched


async def _load(plan: Plan, target: HttpTarget) -> None:
    """All streams at work, until cancelled."""
    for cell in itertools.count():
        workload = plan.workloads[cell % len(plan.workloads)]
        seed = f"{plan.seed}/{cell}"
        await run_cell(target, workload, plan.concurrency[0], seed, plan.sizes)


async def _record(target: HttpTarget, pid: int, seconds: int, path: Path) -> Watched:
    names = thread_names(await _py_spy("dump", "--pid", str(pid), "--json", timeout_s=SPY_EXTRA_S))
    # Not while py-spy looks: it stops every thread at each look, which costs them CPU.
    deltas, cpu_s, started_ts = target.num_deltas, processes.threads_cpu_s(pid), time.perf_counter()
    await asyncio.sleep(seconds)
    spent: Counter[str] = Counter()
    for tid, now_s in processes.threads_cpu_s(pid).items():
        spent[names.get(tid, OTHERS)] += now_s - cpu_s.get(tid, 0.0)
    deltas, wall_s = target.num_deltas - deltas, time.perf_counter() - started_ts
    options = ("--gil", "--threads", "--function", "--format", "raw", "--output", str(path))
    times = ("--duration", str(seconds), "--rate", str(SAMPLES_A_S))
    said = await _py_spy(
        "record", "--pid", str(pid), *times, *options, timeout_s=seconds + SPY_EXTRA_S
    )
    raw = await asyncio.to_thread(path.read_text, "utf-8")
    return Watched(lock_samples(raw), spent, SAMPLES_A_S * seconds, deltas, wall_s, said)


async def _py_spy(*arguments: str, timeout_s: float) -> str:
    """Its output; raises BenchError when it failed (it must be allowed to trace the process)."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(PY_SPY, *arguments, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        raise
    if process.returncode != 0:
        raise BenchError(f"py-spy failed: {err.decode()[-300:]}")
    return out.decode()


def thread_names(dump: str) -> dict[int, str]:
    """Names of Python's threads by the kernel's id, from a dump as JSON."""
    return {
        int(thread["os_thread_id"]): str(thread["thread_name"])
        for thread in json.loads(dump)
        if thread["os_thread_id"]
    }


def lock_samples(raw: str) -> Counter[str]:
    """How often each thread held the lock, from py-spy's raw format with thread names."""
    found: Counter[str] = Counter()
    for line in raw.splitlines():
        match = LINE.match(line)
        if match is None:
            raise BenchError("py-spy's output isn't understood")
        found[match[1]] += int(match[2])
    return found


def threads_of(watched: Watched) -> list[Thread]:
    """Every thread that did something; who held the lock longest first."""
    names = {name for name in watched.cpu_s if watched.cpu_s[name] > 0} | set(watched.samples)
    found = [
        Thread(
            name=NAMES.get(name, name),
            lock=watched.samples.get(name, 0) / watched.num_samples,
            cpu=watched.cpu_s.get(name, 0.0) / watched.wall_s,
            cpu_us=watched.cpu_s.get(name, 0.0) / max(1, watched.num_deltas) * 1e6,
        )
        for name in names
    ]
    return sorted(found, key=lambda thread: (-thread.lock, -thread.cpu))


def render(watched: Watched) -> str:
    """The result as Markdown."""
    rows = [
        [thread.name, f"{thread.lock:.2%}", f"{thread.cpu:.2%}", f"{thread.cpu_us:.0f}"]
        for thread in threads_of(watched)
    ]
    head = ["thread", "holds the lock", "CPU, of one core", "CPU us a delta"]
    rate = watched.num_deltas / watched.wall_s
    notes = [line for line in watched.said.splitlines() if "behind" in line]
    return (
        f"{rate:.0f} deltas/s for {watched.wall_s:.0f} s, {watched.num_samples} samples, load of "
        f"the machine {load_now():.1f}. {' '.join(notes)}\n\n{table(head, rows)}"
    )
