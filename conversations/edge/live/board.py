"""One look at all models for all live connections of a process, instead of one each.

Rows and who may use them are read every ROWS_S in the threads of the live connections; what engines
say is read from Redis every LOOK_S, more often while one is being loaded. A look that fails is left
out: what it would have told, the next one tells.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db import DatabaseError

from conversations.edge.live.threads import LiveThreads
from conversations.edge.mappers import models_out
from conversations.edge.schemas import ModelOut
from inference import api
from inference.api import ModelChoice, ModelStand
from llamaweb.lib.errors import LlamawebError

LOOK_S: Final = 1.0
LOADING_LOOK_S: Final = 0.3
ROWS_S: Final = 5.0
ASK_S: Final = 5.0

log = logging.getLogger(__name__)
UserIds = Collection[int]


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the database said. `names`: by user, what they may use in the order they see it."""

    read_ts: float
    choices: Mapping[str, ModelChoice] = field(default_factory=dict)
    names: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


class ModelBoard:
    """Belongs to one Watch. `tell` gets a user's models, in order; called often, also without
    news."""

    def __init__(
        self,
        threads: LiveThreads,
        user_ids: Callable[[], UserIds],
        tell: Callable[[int, tuple[ModelOut, ...]], None],
    ) -> None:
        self._threads = threads
        self._user_ids = user_ids
        self._tell = tell
        self._rows: _Rows | None = None
        self._seen: tuple[_Rows, list[ModelStand]] | None = None
        self._outs: dict[int, tuple[ModelOut, ...]] = {}  # by user, of what was seen

    async def run(self) -> None:
        """Look until the task is cancelled."""
        while True:
            wait_s = LOOK_S
            try:
                stands = await self.look()
            except (LlamawebError, DatabaseError, TimeoutError) as error:
                log.info("models can't be looked at: %s", type(error).__name__)
            except Exception:
                log.exception("models can't be looked at")
            else:
                if any(stand.state == "loading" for stand in stands):
                    wait_s = LOADING_LOOK_S
            await asyncio.sleep(wait_s)

    async def look(self) -> Collection[ModelStand]:
        """Look once and tell everybody who is connected.

        Raises:
            UnavailableError, DeadlineError, TimeoutError: database or Redis don't answer.
        """
        rows = await self._read(set(self._user_ids()))
        choices = list(rows.choices.values())
        async with asyncio.timeout(ASK_S):
            found = await api.model_stands([choice.info for choice in choices])
        if self._seen is None or self._seen[0] is not rows or self._seen[1] != found:
            self._seen, self._outs = (rows, found), {}
        for user_id in self._user_ids():
            if user_id in rows.names:
                self._tell(user_id, self._out(user_id, rows, found))
        return found

    def _out(self, user_id: int, rows: _Rows, found: Sequence[ModelStand]) -> tuple[ModelOut, ...]:
        if user_id not in self._outs:
            stands = dict(zip(rows.choices, found, strict=True))
            names = [name for name in rows.names[user_id] if name in stands]
            choices = [rows.choices[name] for name in names]
            self._outs[user_id] = tuple(models_out(choices, [stands[name] for name in names]))
        return self._outs[user_id]

    async def _read(self, user_ids: set[int]) -> _Rows:
        """What is known, if it is fresh and of all these users."""
        known, now = self._rows, time.monotonic()
        is_fresh = known is not None and now - known.read_ts < ROWS_S
        if known is None or not is_fresh or not user_ids <= known.names.keys():
            choices, names = await self._threads.run(_rows_read, user_ids)
            known = self._rows = _Rows(now, choices, names)
        return known


def _rows_read(user_ids: UserIds) -> tuple[dict[str, ModelChoice], dict[int, tuple[str, ...]]]:
    choices = {choice.info.name: choice for choice in api.model_choices_now()}
    return choices, api.model_names_now(user_ids)
