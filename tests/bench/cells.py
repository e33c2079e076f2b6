"""A cell: a fixed number of requests to one target, at most `concurrency` of them at a time."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from tests.bench.figures import Answer, Figures, figures_of
from tests.bench.workloads import MAX_TOKENS, Chat, Workload, chat, num_requests

REQUEST_TIMEOUT_S = 180.0


class Target(Protocol):
    """Something that answers chats."""

    name: str

    async def ask(self, messages: Chat, max_tokens: int) -> Answer:
        """One greedy answer of exactly `max_tokens`; no end token ends it."""
        ...


async def run_cell(
    target: Target,
    workload: Workload,
    concurrency: int,
    seed: str,
    *,
    requests: int = 0,
    max_tokens: int = MAX_TOKENS,
) -> Figures:
    """Closed loop: each of `concurrency` callers asks its next one when it has its answer.

    Raises:
        BenchError: an answer isn't as long as asked.
        TimeoutError: an answer took longer than REQUEST_TIMEOUT_S.
    """
    todo = list(range(requests or num_requests(concurrency)))
    answers: list[Answer] = []

    async def caller() -> None:
        while todo:
            messages = chat(workload, seed, todo.pop(0))
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                answer = await target.ask(messages, max_tokens)
            answer.check(max_tokens)
            answers.append(answer)

    started_ts = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(caller())
    return figures_of(answers, time.perf_counter() - started_ts)
