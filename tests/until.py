"""Waiting for what nothing can be awaited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

WAIT_S = 20.0
LOOK_S = 0.005


async def until(condition: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
    """Look again and again; raises TimeoutError when it doesn't come true in time."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 -- what it waits for has no event
            await asyncio.sleep(LOOK_S)
