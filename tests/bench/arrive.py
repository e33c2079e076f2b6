"""`arrive`: a long prompt lands on streams that are being read."""

from __future__ import annotations

import asyncio
import dataclasses
import time

from tests.bench.figures import Answer, Figures, figures_of, worst_gap_ms
from tests.bench.target import Target, ask_whole
from tests.bench.workloads import Sizes, long_chat, short_chat

LONG_TOKENS = 4  # of the answer to the long prompt: only its prompt is of interest


async def run(target: Target, concurrency: int, seed: str, sizes: Sizes) -> Figures:
    """The long prompt is the last of `concurrency` streams; it comes when all others have text.

    `itl_max` is the worst gap of the others from then on.
    """
    started_ts = time.perf_counter()
    reading = [asyncio.Event() for _ in range(concurrency - 1)]

    async def read(index: int, has_text: asyncio.Event) -> Answer:
        return await ask_whole(target, short_chat(seed, index), sizes.max_tokens, has_text.set)

    async def land() -> tuple[float, Answer]:
        for has_text in reading:
            await has_text.wait()
        arrived_ts = time.perf_counter()
        messages = long_chat(seed, sizes.long_words)
        return arrived_ts, await ask_whole(target, messages, LONG_TOKENS)

    async with asyncio.TaskGroup() as group:
        streams = [
            group.create_task(read(index, has_text)) for index, has_text in enumerate(reading)
        ]
        landing = group.create_task(land())
    arrived_ts, long_answer = landing.result()
    others = [stream.result() for stream in streams]
    figures = figures_of([*others, long_answer], time.perf_counter() - started_ts, concurrency)
    return dataclasses.replace(figures, itl_max=worst_gap_ms(others, arrived_ts))
