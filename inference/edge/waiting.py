"""Why an answer hasn't begun: what the engines of its model say, in words for whoever waits."""

from __future__ import annotations

import asyncio
import time
import weakref
from typing import Final

from django.db import DatabaseError

from inference import api
from inference.edge.errors import end_error
from inference.edge.following import Batch, Follower
from inference.edge.steps import Broken
from inference.protocol.events import Cancelled, Failed
from inference.protocol.reasons import NO_REASON, Reason, reason, reason_read
from llamaweb.accounts.caller import Caller
from llamaweb.lib.errors import LlamawebError, UnavailableError

LOOK_S: Final = 1.0  # between two looks at a model, however many wait for it
ASK_S: Final = 5.0


class Waiting:
    """A request to `model`, from its submission to the first step of its answer. `caller`: whose;
    models that aren't for them, or not for their key, aren't named. `reason`: why nothing comes, as
    far as is known."""

    def __init__(self, model: str, caller: Caller) -> None:
        self.reason = ""
        self.has_begun = False
        self._model = model
        self._caller = caller
        self._said = ""
        self._visible: frozenset[str] | None = None

    async def first(self, run: Follower, timeout_s: float) -> Batch | None:
        """As `Follower.first`."""
        ends_ts = _now() + timeout_s
        while (left_s := ends_ts - _now()) > 0:
            batch = await run.first(min(LOOK_S, left_s))
            if batch is not None:
                return batch
            await self._look()
        return None

    async def next(self, run: Follower, timeout_s: float | None) -> Batch | str | None:
        """As `Follower.next`; before the first steps also a reason, whenever it is another one."""
        ends_ts = None if timeout_s is None else _now() + timeout_s
        while not self.has_begun:
            if self.reason and self.reason != self._said:
                self._said = self.reason
                return self.reason
            left_s = LOOK_S if ends_ts is None else min(LOOK_S, ends_ts - _now())
            if left_s <= 0:
                return None
            batch = await run.next(left_s)
            if batch is not None:
                self.has_begun = not isinstance(batch.steps[0], Broken)
                return batch
            if run.is_over:
                return None
            await self._look()
        return await run.next(timeout_s)

    def error(self, end: Failed | Cancelled) -> LlamawebError:
        """How it ended. One whose time went by before its model was there is told what it waited
        for, and may come again."""
        is_late = isinstance(end, Failed) and end.code == "deadline_exceeded"
        if is_late and self.reason and not self.has_begun:
            return UnavailableError(f"the request's time is over: {self.reason}")
        return end_error(end)

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(ASK_S):
                said = await _looks_here().reason(self._model)
                if said.others and self._visible is None:
                    caller = self._caller
                    models = await api.model_list_for(caller.user_id, caller.model_names)
                    self._visible = frozenset(info.name for info in models)
        except (LlamawebError, DatabaseError, TimeoutError):
            return  # what was known is the best there is
        self.reason = said.told_to(self._visible or ())


class _Looks:
    """What engines say of themselves, by model. Belongs to one event loop."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, Reason]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def reason(self, model: str) -> Reason:
        """Why nothing moves; none when an engine is ready."""
        async with self._locks.setdefault(model, asyncio.Lock()):
            known = self._known.get(model)
            if known is None or _now() - known[0] >= LOOK_S:
                known = _now(), await _ask(model)
                self._known[model] = known
            return known[1]


async def _ask(model: str) -> Reason:
    heard = [engine for engine in await api.engine_list(model) if not engine.is_silent]
    if any(engine.state == "ready" for engine in heard):
        return NO_REASON
    said = next((reason_read(e.info) for e in heard if e.info.get("reason")), NO_REASON)
    return said or reason(f"model {model} is loading" if heard else "no engine has started yet")


_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Looks] = weakref.WeakKeyDictionary()


def _looks_here() -> _Looks:
    return _by_loop.setdefault(asyncio.get_running_loop(), _Looks())


def _now() -> float:
    return time.monotonic()
