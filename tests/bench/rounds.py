"""One run: rounds of all cells, engine and product in turn, in an order drawn anew each round.

Both are loaded all the time and never asked at the same time; the one that isn't asked must use no
CPU, which is measured in every cell.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from inference.engine.starter import find_starter_model
from inference.protocol.spec import EngineSpec, MockSpec
from tests.bench import processes
from tests.bench.cells import Target, run_cell
from tests.bench.figures import BenchError, Figures
from tests.bench.http_target import HttpTarget
from tests.bench.local_target import LocalTarget
from tests.bench.machine import load_now
from tests.bench.processes import Memory
from tests.bench.workloads import MAX_TOKENS, Workload
from tests.stack import Stack

NUM_SLOTS = 8
CONTEXT_LEN = 2048  # a slot: enough for the longest prompt here and its answer
MOCK_CONTEXT_LEN = 8192  # a token a byte
MOCK_REPLY = "The quick brown fox jumps over the lazy dog. " * 4
WARM_TOKENS = 4
MAX_IDLE_SHARE = 0.15  # of one core
PRODUCT, ENGINE = "product", "engine"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `threads` of a decode on either side."""

    rounds: int
    concurrency: tuple[int, ...]
    workloads: tuple[Workload, ...]
    seed: str
    threads: int
    engine_class: str = "llama"
    max_tokens: int = MAX_TOKENS
    requests: int = 0  # a cell; 0: by concurrency


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Which cell."""

    workload: Workload
    concurrency: int
    target: str


@dataclass(slots=True)
class Run:
    """What came out. `idle`: shares of one core that the side not asked used, by its name."""

    plan: Plan
    spec: EngineSpec
    cells: dict[Key, list[Figures]] = field(default_factory=dict)
    memory: list[Memory] = field(default_factory=list)
    idle: dict[str, list[float]] = field(default_factory=dict)
    load: list[float] = field(default_factory=list)


def engine_spec(plan: Plan) -> EngineSpec:
    """The engine of both sides."""
    path = find_starter_model() if plan.engine_class == "llama" else None
    if plan.engine_class == "llama" and path is None:
        raise BenchError("the starter model's package isn't installed")
    return EngineSpec(
        model="bench",
        engine_id="bench",
        redis_url="",
        redis_prefix="",
        engine_class=plan.engine_class,
        mock=MockSpec(reply=MOCK_REPLY),
        model_path=str(path or ""),
        num_slots=NUM_SLOTS,
        context_len=CONTEXT_LEN if plan.engine_class == "llama" else MOCK_CONTEXT_LEN,
        threads=plan.threads,
    )


def product_env(spec: EngineSpec) -> dict[str, str]:
    """Variables that give the product the same engine."""
    return {
        "LLAMAWEB_ENGINE": spec.engine_class,
        "LLAMAWEB_MOCK_REPLY": MOCK_REPLY,
        "LLAMAWEB_ENGINE_SLOTS": str(spec.num_slots),
        "LLAMAWEB_ENGINE_CONTEXT": str(spec.context_len),
        "LLAMAWEB_ENGINE_THREADS": str(spec.threads),
    }


def run(plan: Plan, folder: Path, say: Callable[[str], None]) -> Run:
    """Start both sides, measure, end both.

    Raises:
        BenchError: an answer was too short, the prompts differ, or the idle side computed.
    """
    result = Run(plan, engine_spec(plan))
    with Stack(folder / "data", env=product_env(result.spec)) as stack:
        stack.wait_ready()
        product = HttpTarget(stack.base_url, stack.create_key(), "default")
        asyncio.run(_measure(result, stack, product, say))
    return result


async def _measure(
    result: Run, stack: Stack, product: HttpTarget, say: Callable[[str], None]
) -> None:
    engine = LocalTarget.load(result.spec)
    try:
        targets: list[Target] = [engine, product]
        for target in targets:
            await run_cell(target, "distinct", 1, "warm", requests=1, max_tokens=WARM_TOKENS)
        for round_, workload, concurrency in _cells(result.plan):
            random.Random(f"{result.plan.seed}/{round_}/{workload}/{concurrency}").shuffle(targets)
            seed = f"{result.plan.seed}/{round_}/{workload}/{concurrency}"
            for target in targets:
                key = Key(workload, concurrency, target.name)
                figures = await _cell(result, stack, target, key, seed)
                say(f"round {round_} {workload} {concurrency} {target.name}: {_short(figures)}")
            _check_prompts(result, workload, concurrency)
        result.memory = processes.memory_of_stack(stack)
        result.memory.append(processes.memory_of(psutil.Process(), "engine in-process, client"))
    finally:
        await engine.close()
    _check_idle(result)


def _cells(plan: Plan) -> Iterator[tuple[int, Workload, int]]:
    for round_ in range(plan.rounds):
        cells = list(itertools.product(plan.workloads, plan.concurrency))
        random.Random(f"{plan.seed}/{round_}").shuffle(cells)
        for workload, concurrency in cells:
            yield round_, workload, concurrency


async def _cell(result: Run, stack: Stack, target: Target, key: Key, seed: str) -> Figures:
    others = stack.snapshot()
    product_s, engine_s = processes.cpu_s(others), processes.own_thread_cpu_s()
    started_ts = asyncio.get_running_loop().time()
    figures = await run_cell(
        target,
        key.workload,
        key.concurrency,
        seed,
        requests=result.plan.requests,
        max_tokens=result.plan.max_tokens,
    )
    wall_s = asyncio.get_running_loop().time() - started_ts
    if target.name == PRODUCT:
        idle, spent_s = ENGINE, processes.own_thread_cpu_s() - engine_s
    else:
        idle, spent_s = PRODUCT, processes.cpu_s(others) - product_s
    result.idle.setdefault(idle, []).append(spent_s / wall_s)
    result.cells.setdefault(key, []).append(figures)
    result.load.append(load_now())
    return figures


def _check_prompts(result: Run, workload: Workload, concurrency: int) -> None:
    ours, base = (result.cells[Key(workload, concurrency, name)][-1] for name in (PRODUCT, ENGINE))
    if ours.prompt != base.prompt:
        raise BenchError(f"prompts of {ours.prompt} and {base.prompt} tokens aren't the same")


def _check_idle(result: Run) -> None:
    for name, shares in result.idle.items():
        typical = sorted(shares)[len(shares) // 2]
        if typical > MAX_IDLE_SHARE and result.plan.engine_class == "llama":
            raise BenchError(f"the idle {name} used {typical:.0%} of a core: it disturbs the other")


def _short(figures: Figures) -> str:
    return (
        f"{figures.tps:.1f} tokens/s, TTFT {figures.ttft50:.0f} ms, ITL {figures.itl50:.1f} ms, "
        f"end {figures.e2e50:.0f} ms"
    )
