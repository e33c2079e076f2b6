"""GET /models/sse: one look at rows and heartbeats for all listeners of a process.

It runs while somebody listens. A look that fails is left out: what it would have told, the next one
that succeeds tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

from django.conf import settings
from django.db import connections
from django.db.models import Max

from inference import api
from inference.edge.errors import error_reply
from inference.edge.models.events import Look, events_between
from inference.edge.models.sight import Sight, sights
from inference.edge.models.status import status_of
from inference.edge.wire import Frame, ServerSentEvents
from inference.models import ModelFile
from inference.registry.model_cards import Download, downloads_open
from inference.registry.selectors import ModelInfo, model_list
from llamaweb.accounts.caller import Caller
from llamaweb.accounts.database import in_database
from llamaweb.accounts.models import AuditAction, AuditEvent
from llamaweb.accounts.selectors import INVALID_KEY
from llamaweb.lib.errors import AuthenticationError, BusyError, LlamawebError, UnavailableError
from llamaweb.lib.event_stream import PING

LOOK_S: Final = 0.2
FIRST_LOOK_S: Final = 5.0
AGAIN_S: Final = 1.0  # after a look that failed
LOOKS_A_CHECK: Final = 4  # of keys, and of what their owners may use
MAX_LISTENERS: Final = 32  # of a process
MAX_OF_USER: Final = 8  # of these
KEPT: Final = 8  # of these, for administrators: others take no more than the rest
MAX_WAITING: Final = 1024  # events, for a listener that doesn't read

# What happened between two looks, by what was seen at each.
Found: TypeAlias = dict[tuple[Sight, Sight], tuple[dict[str, Any], ...]]

log = logging.getLogger(__name__)


class Listener:
    """An open stream of `caller`, who may be told what is in `sight`; `items` are its events, and
    the error that ends it."""

    def __init__(self, caller: Caller, sight: Sight) -> None:
        self.caller, self.sight = caller, sight
        self.items: asyncio.Queue[dict[str, Any] | LlamawebError] = asyncio.Queue()
        self._told = sight

    def follow(self, before: Look, now: Look, found: Found) -> None:
        """Tell what happened between two looks. What came into sight is as if it had appeared,
        what went out of it as if it were gone. `found`: between the same looks, for others."""
        seen = (self._told, self.sight)
        if seen not in found:
            found[seen] = tuple(events_between(before.of(self._told), now.of(self.sight)))
        for event in found[seen]:
            self.tell(event)
        self._told = self.sight

    def see(self, sight: Sight) -> None:
        """Be told that from now on; who doesn't administer any more has to ask anew."""
        if self.sight is None and sight is not None:
            self.end(AuthenticationError(INVALID_KEY))
        self.sight = sight

    def tell(self, event: dict[str, Any]) -> None:
        """One more event; a listener that is too far behind is ended."""
        if self.items.qsize() < MAX_WAITING:
            self.items.put_nowait(event)
        elif self.items.qsize() == MAX_WAITING:
            self.end(UnavailableError("events weren't read; connect again"))

    def end(self, error: LlamawebError) -> None:
        """Close the stream, with the reason as its last event."""
        self.items.put_nowait(error)


class ModelWatch:
    """Belongs to one event loop; see `watch_here`."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._looked = asyncio.Event()

    @property
    def is_running(self) -> bool:
        """Whether anybody listens."""
        return self._task is not None

    async def add(self, caller: Caller) -> Listener:
        """Listen; what happens from the return on is told. Pair of `remove`.

        Raises:
            BusyError: too many do.
            UnavailableError: database or Redis can't be reached.
            AuthenticationError: the key has been revoked meanwhile.
        """
        seen = await in_database(sights)((caller,))
        if caller not in seen:
            raise AuthenticationError(INVALID_KEY)
        self._check_room(caller, seen[caller])
        listener = Listener(caller, seen[caller])
        self._listeners.add(listener)
        if self._task is None:
            self._looked.clear()
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="models-watch")
            self._task = asyncio.create_task(self._run(self._pool), name="models-watch")
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                await self._looked.wait()
        except BaseException as error:
            self.remove(listener)
            if isinstance(error, TimeoutError):
                raise UnavailableError("models can't be followed now") from error
            raise
        return listener

    def _check_room(self, caller: Caller, sight: Sight) -> None:
        users = [listener.caller.user_id for listener in self._listeners]
        is_own = users.count(caller.user_id) >= MAX_OF_USER
        num_others = sum(listener.sight is not None for listener in self._listeners)
        is_kept = sight is not None and num_others >= MAX_LISTENERS - KEPT
        if is_own or len(users) >= MAX_LISTENERS or is_kept:
            who = f"{MAX_OF_USER} clients of this user" if is_own else f"{len(users)} clients"
            raise BusyError(
                f"{who} follow the models already",
                reason="listeners",
                retry_after_s=10.0,
            )

    def remove(self, listener: Listener) -> None:
        """Listen no more; the last one ends the looks. Again: nothing."""
        self._listeners.discard(listener)
        if self._listeners or self._task is None or self._pool is None:
            return
        self._task.cancel()
        self._pool.submit(connections.close_all)
        self._pool.shutdown(wait=False)
        self._task = self._pool = None

    async def _run(self, pool: ThreadPoolExecutor) -> None:
        before: Look | None = None
        last_event, num_looks = 0, 0
        while True:
            wait_s = AGAIN_S
            known = () if before is None else tuple(before.downloads)
            try:
                rows = await in_database(_Rows.read, executor=pool)(known, last_event)
                now = await rows.look()
                if num_looks % LOOKS_A_CHECK == 0:
                    await self._check_sights(pool)
            except LlamawebError as error:
                log.warning("models can't be followed: %s", error)
            except Exception:
                log.exception("models can't be followed")
            else:
                if before is not None:
                    found: Found = {}
                    for listener in self._listeners:
                        listener.follow(before, now, found)
                before, last_event, wait_s = now, rows.last_event, LOOK_S
                self._looked.set()
            num_looks += 1
            await asyncio.sleep(wait_s)

    async def _check_sights(self, pool: ThreadPoolExecutor) -> None:
        asked = list(self._listeners)
        callers = {listener.caller for listener in asked}
        seen = await in_database(sights, executor=pool)(callers)
        for listener in asked:
            if listener.caller in seen:
                listener.see(seen[listener.caller])
            else:
                listener.end(AuthenticationError(INVALID_KEY))


class _Rows:
    """What the database says at one moment."""

    def __init__(self, infos: list[ModelInfo], downloads: list[Download]) -> None:
        self.infos = infos
        self.downloads = {download.file_id: download for download in downloads}
        self.ended: dict[int, str] = {}
        self.last_event = 0
        self.was_scanned = False

    @classmethod
    def read(cls, known: Collection[int], last_event: int) -> _Rows:
        """`known`: files that were on their way; `last_event`: of the audit log, 0 at first."""
        rows = cls(model_list(), downloads_open())
        gone = [file_id for file_id in known if file_id not in rows.downloads]
        if gone:
            rows.ended = dict(ModelFile.objects.filter(pk__in=gone).values_list("pk", "state"))
        newer = AuditEvent.objects.filter(pk__gt=last_event)
        rows.last_event = newer.aggregate(last=Max("pk"))["last"] or last_event
        if last_event and rows.last_event > last_event:
            rows.was_scanned = newer.filter(action=AuditAction.MODEL_FILES_SCANNED).exists()
        return rows

    async def look(self) -> Look:
        """Together with the heartbeats.

        Raises:
            UnavailableError: Redis can't be reached.
        """
        heard = await asyncio.gather(*(api.engine_list(info.name) for info in self.infos))
        pairs = zip(self.infos, heard, strict=True)
        models = {info.name: status_of(info, engines) for info, engines in pairs}
        return Look(models, self.downloads, self.ended, self.was_scanned)


_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, ModelWatch] = (
    weakref.WeakKeyDictionary()
)


def watch_here() -> ModelWatch:
    """The one of the running event loop."""
    return _by_loop.setdefault(asyncio.get_running_loop(), ModelWatch())


class ModelEvents:
    """A response's content, which stops listening when the response ends: Django calls `close`,
    from any thread."""

    def __init__(self, watch: ModelWatch, listener: Listener, *, life_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._watch, self._listener = watch, listener
        self._ping_s = settings.SSE_PING_S if settings.SSE_PING_S > 0 else life_s
        self._until_ts = self._loop.time() + life_s

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks()

    def close(self) -> None:
        """The client is gone, or all was sent."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._watch.remove, self._listener)

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        events = ServerSentEvents()
        yield PING  # the head goes out with the first bytes: from here on nothing is missed
        while self._loop.time() < self._until_ts:  # soon after, the web server would cut it
            try:
                async with asyncio.timeout(self._ping_s):
                    item = await self._listener.items.get()
            except TimeoutError:
                yield PING
                continue
            if isinstance(item, LlamawebError):
                yield events.frame(Frame(error_reply(item).body), None)
                return
            yield events.frame(Frame(item), None)
