"""`chats`: more conversations than slots, each turn with the whole history, as chat clients do."""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
import time

from tests.bench.figures import Answer, Figures, figures_of
from tests.bench.target import Target, ask_whole
from tests.bench.workloads import Chat, Sizes, question


async def run(target: Target, concurrency: int, seed: str, sizes: Sizes) -> Figures:
    """Each of `concurrency` callers takes turns between its share of the conversations.

    `prompt` is that of first turns: the histories differ where an answer does.
    """
    answers: list[Answer] = []
    openings: list[int] = []

    async def caller(first: int) -> None:
        mine = range(first, sizes.conversations, concurrency)
        histories: dict[int, Chat] = dict.fromkeys(mine, ())
        for turn in range(sizes.turns):
            for conversation in mine:
                asked = ("user", question(seed, conversation, turn))
                messages = (*histories[conversation], asked)
                answer = await ask_whole(target, messages, sizes.turn_tokens)
                histories[conversation] = (*messages, ("assistant", answer.text))
                answers.append(answer)
                if turn == 0:
                    openings.append(answer.prompt_tokens)

    started_ts = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for first in range(concurrency):
            group.create_task(caller(first))
    figures = figures_of(answers, time.perf_counter() - started_ts, concurrency)
    return dataclasses.replace(figures, prompt=statistics.fmean(openings))
