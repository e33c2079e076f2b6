"""Ending tasks for good."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

CANCEL_AGAIN_S: Final = 0.1
PATIENCE_S: Final = 5.0


async def tasks_end(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancel and wait. Libraries lose a cancellation now and then, so it is said again."""
    current = asyncio.current_task()
    left = {task for task in tasks if task is not None and task is not current}
    give_up_ts = asyncio.get_running_loop().time() + PATIENCE_S
    while left := {task for task in left if not task.done()}:
        if asyncio.get_running_loop().time() > give_up_ts:
            return
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
