"""What can be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias

from tests.bench.figures import Answer
from tests.bench.workloads import Chat

REQUEST_TIMEOUT_S = 180.0
OnText: TypeAlias = Callable[[], None]


def ignore() -> None:
    """Nobody wants to know of a delta."""


class Target(Protocol):
    """Something that answers chats."""

    name: str

    async def ask(self, messages: Chat, max_tokens: int, on_text: OnText = ignore) -> Answer:
        """One greedy answer of exactly `max_tokens`; no end token ends it. `on_text` is called at
        each delta with text. Cancelling it cancels the answer."""
        ...


async def ask_whole(
    target: Target, messages: Chat, max_tokens: int, on_text: OnText = ignore
) -> Answer:
    """An answer of the length asked for.

    Raises:
        BenchError: it isn't as long.
        TimeoutError: it took longer than REQUEST_TIMEOUT_S.
    """
    async with asyncio.timeout(REQUEST_TIMEOUT_S):
        answer = await target.ask(messages, max_tokens, on_text)
    answer.check(max_tokens)
    return answer
