"""Why an answer doesn't move: asked once a second for each model, however many wait."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from django.db import DatabaseError

from inference import api
from llamaweb.lib.errors import LlamawebError, NotFoundError

FRESH_S: Final = 1.0
ASK_S: Final = 5.0
UNREACHABLE = "the queue can't be reached at the moment; the answer goes on when it is back"


class Reasons:
    """What engines say of themselves, by model. Belongs to one event loop."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, str]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def reason(self, model: str) -> str:
        """Why nothing moves; "" when an engine is ready."""
        async with self._locks.setdefault(model, asyncio.Lock()):
            asked_ts, known = self._known.get(model, (0.0, ""))
            if time.monotonic() - asked_ts >= FRESH_S:
                known = await _ask(model)
                self._known[model] = (time.monotonic(), known)
            return known


async def _ask(model: str) -> str:
    try:
        async with asyncio.timeout(ASK_S):
            return (await api.engine_status(model)).reason
    except NotFoundError as error:
        return error.message
    except (LlamawebError, DatabaseError, TimeoutError):
        return UNREACHABLE
