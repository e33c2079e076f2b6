"""One run: rounds of all cells, every side in turn, in an order drawn anew each round.

All sides are loaded all the time and never asked at the same time; those that aren't asked must
use no CPU, which is measured in every cell.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inference.engine.starter import find_starter_model
from inference.protocol.spec import EngineSpec, MockSpec
from tests.bench import processes
from tests.bench.figures import BenchError, Figures
from tests.bench.machine import load_now
from tests.bench.processes import Memory
from tests.bench.sides import LOOP, MOCK_REPLY, Side, client_memory, engine_side, product_side
from tests.bench.workloads import MIXED_STREAMS, Sizes, Workload

NUM_SLOTS = 8
CONTEXT_LEN = 2048  # a slot: enough for the longest closed prompt and its answer
MOCK_CONTEXT_LEN = 8192  # a token a byte
MAX_IDLE_SHARE = 0.15  # of one core
UNCOUNTED_PROMPTS: tuple[Workload, ...] = ("busy",)  # an answer may be cut before its usage comes
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `threads` of a decode on every side; `concurrency` of closed workloads."""

    rounds: int
    concurrency: tuple[int, ...]
    workloads: tuple[Workload, ...]
    seed: str
    threads: int
    engine_class: str = "llama"
    sizes: Sizes = field(default_factory=Sizes)

    def cells(self, round_: int) -> Iterator[tuple[Workload, int]]:
        """Workload and streams of each cell of a round, in its order."""
        cells = [
            cell
            for workload in self.workloads
            for cell in itertools.product(
                [workload],
                [MIXED_STREAMS[workload]] if workload in MIXED_STREAMS else self.concurrency,
            )
        ]
        random.Random(f"{self.seed}/{round_}").shuffle(cells)
        yield from cells


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Which cell."""

    workload: Workload
    concurrency: int
    target: str


@dataclass(slots=True)
class Round:
    """What one round gave. `idle`: shares of one core that sides not asked used, by name.
    `load`: of the machine, at the end of each cell."""

    number: int
    cells: dict[Key, Figures] = field(default_factory=dict)
    idle: dict[str, list[float]] = field(default_factory=dict)
    load: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """What came out."""

    plan: Plan
    spec: EngineSpec
    rounds: list[Round] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)

    @property
    def cells(self) -> dict[Key, list[Figures]]:
        """The figures of each cell, by round."""
        found: dict[Key, list[Figures]] = {}
        for round_ in self.rounds:
            for key, figures in round_.cells.items():
                found.setdefault(key, []).append(figures)
        return found

    @property
    def idle(self) -> dict[str, list[float]]:
        """See `Round.idle`."""
        return idle_of(self.rounds)

    @property
    def load(self) -> list[float]:
        """See `Round.load`."""
        return [load for round_ in self.rounds for load in round_.load]


def idle_of(rounds: Sequence[Round]) -> dict[str, list[float]]:
    """See `Round.idle`, of all of them."""
    found: dict[str, list[float]] = {}
    for round_ in rounds:
        for name, shares in round_.idle.items():
            found.setdefault(name, []).extend(shares)
    return found


def engine_spec(plan: Plan) -> EngineSpec:
    """The engine of both sides of `make bench`."""
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


def run(plan: Plan, folder: Path, say: Say) -> Run:
    """Start engine and product, measure, end both.

    Raises:
        BenchError: an answer was too short, the prompts differ, or the idle side computed.
    """
    return asyncio.run(_run(plan, folder, say))


async def _run(plan: Plan, folder: Path, say: Say) -> Run:
    result = Run(plan, engine_spec(plan))
    async with product_side(result.spec, folder) as (product, stack):
        async with engine_side(result.spec) as engine:
            for number in range(plan.rounds):
                result.rounds.append(await run_round(plan, number, [engine, product], say))
            result.memory = [*processes.memory_of_stack(stack), client_memory()]
        check_idle(plan, result.rounds)
    return result


async def run_round(plan: Plan, number: int, sides: Sequence[Side], say: Say) -> Round:
    """Every cell on every side that takes part in it.

    Raises:
        BenchError: an answer was too short, or the prompts of a cell differ between sides.
    """
    result = Round(number)
    for workload, concurrency in plan.cells(number):
        seed = f"{plan.seed}/{number}/{workload}/{concurrency}"
        order = [side for side in sides if workload in side.workloads]
        random.Random(seed).shuffle(order)
        for side in order:
            key = Key(workload, concurrency, side.name)
            figures = await _cell(result, sides, side, key, seed, plan.sizes)
            say(f"round {number} {workload} {concurrency} {side.name}: {_short(figures)}")
        _check_prompts(result, workload, concurrency)
    return result


async def _cell(
    result: Round, sides: Sequence[Side], side: Side, key: Key, seed: str, sizes: Sizes
) -> Figures:
    others = {other.home: other for other in sides if other.home != side.home}
    before_s = {home: other.cpu_s() for home, other in others.items()}
    started_ts = time.perf_counter()
    figures = await side.measure(key.workload, key.concurrency, seed, sizes)
    wall_s = time.perf_counter() - started_ts
    for home, other in others.items():
        result.idle.setdefault(home, []).append((other.cpu_s() - before_s[home]) / wall_s)
    result.cells[key] = figures
    result.load.append(load_now())
    return figures


def _check_prompts(result: Round, workload: Workload, concurrency: int) -> None:
    lengths = {
        key.target: figures.prompt
        for key, figures in result.cells.items()
        if (key.workload, key.concurrency) == (workload, concurrency) and key.target != LOOP
    }  # the loop has prompts of its own, which nobody reads
    if workload not in UNCOUNTED_PROMPTS and len(set(lengths.values())) > 1:
        raise BenchError(f"the prompts aren't the same; mean tokens: {lengths}")


def check_idle(plan: Plan, rounds: Sequence[Round]) -> None:
    """Raise BenchError when a side that wasn't asked computed."""
    for name, shares in idle_of(rounds).items():
        typical = sorted(shares)[len(shares) // 2]
        if typical > MAX_IDLE_SHARE and plan.engine_class == "llama":
            raise BenchError(f"the idle {name} used {typical:.0%} of a core: it disturbs the other")


def _short(figures: Figures) -> str:
    return (
        f"{figures.tps:.1f} tokens/s, TTFT {figures.ttft50:.0f} ms, ITL {figures.itl50:.1f} ms, "
        f"end {figures.e2e50:.0f} ms"
    )
