"""A cell: one workload on one target, with a number of streams."""

from __future__ import annotations

import asyncio
import time

from tests.bench import arrive, busy, conversations
from tests.bench.figures import Answer, Figures, figures_of
from tests.bench.target import Target, ask_whole
from tests.bench.workloads import Sizes, Workload, chat


async def run_cell(
    target: Target, workload: Workload, concurrency: int, seed: str, sizes: Sizes | None = None
) -> Figures:
    """Ask what the workload says, and measure.

    Raises:
        BenchError: an answer isn't as long as asked (in an ExceptionGroup).
        TimeoutError: an answer took longer than REQUEST_TIMEOUT_S (in an ExceptionGroup).
    """
    sizes = sizes or Sizes()
    if workload == "arrive":
        return await arrive.run(target, concurrency, seed, sizes)
    if workload == "chats":
        return await conversations.run(target, concurrency, seed, sizes)
    if workload == "busy":
        return await busy.run(target, seed, sizes)
    return await _closed_loop(target, workload, concurrency, seed, sizes)


async def _closed_loop(
    target: Target, workload: Workload, concurrency: int, seed: str, sizes: Sizes
) -> Figures:
    """Each of `concurrency` callers asks its next one when it has its answer."""
    todo = list(range(sizes.num_requests(concurrency)))
    answers: list[Answer] = []

    async def caller() -> None:
        while todo:
            messages = chat(workload, seed, todo.pop(0))
            answers.append(await ask_whole(target, messages, sizes.max_tokens))

    started_ts = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(caller())
    return figures_of(answers, time.perf_counter() - started_ts, concurrency)
