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
from typing import Any, Final

from django.conf import settings
from django.db import connections
from django.db.models import Max, Q
from django.utils import timezone

from inference import api
from inference.edge.errors import error_reply
from inference.edge.models.events import Look, events_between
from inference.edge.models.permissions import is_administrator
from inference.edge.models.status import status_of
from inference.edge.wire import Frame, ServerSentEvents
from inference.models import ModelFile
from inference.registry.model_cards import Download, downloads_open
from inference.registry.selectors import ModelInfo, model_list
from llamaweb.accounts.caller import Caller
from llamaweb.accounts.database import in_database
from llamaweb.accounts.models import ApiKey, AuditAction, AuditEvent
from llamaweb.accounts.selectors import INVALID_KEY
from llamaweb.lib.errors import AuthenticationError, BusyError, LlamawebError, UnavailableError
from llamaweb.lib.event_stream import PING

LOOK_S: Final = 0.2
FIRST_LOOK_S: Final = 5.0
AGAIN_S: Final = 1.0  # after a look that failed
LOOKS_A_KEY_CHECK: Final = 4
MAX_LISTENERS: Final = 32  # of a process
MAX_WAITING: Final = 1024  # events, for a listener that doesn't read

log = logging.getLogger(__name__)


class Listener:
    """An open stream of `caller`; `items` are its events, and the error that ends it."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.items: asyncio.Queue[dict[str, Any] | LlamawebError] = asyncio.Queue()

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
        """
        if len(self._listeners) >= MAX_LISTENERS:
            raise BusyError(
                f"{MAX_LISTENERS} clients follow the models already",
                reason="listeners",
                retry_after_s=10.0,
            )
        listener = Listener(caller)
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
                if num_looks % LOOKS_A_KEY_CHECK == 0:
                    await self._check_keys(pool)
            except LlamawebError as error:
                log.warning("models can't be followed: %s", error)
            except Exception:
                log.exception("models can't be followed")
            else:
                for event in () if before is None else events_between(before, now):
                    for listener in self._listeners:
                        listener.tell(event)
                before, last_event, wait_s = now, rows.last_event, LOOK_S
                self._looked.set()
            num_looks += 1
            await asyncio.sleep(wait_s)

    async def _check_keys(self, pool: ThreadPoolExecutor) -> None:
        asked = list(self._listeners)
        callers = {listener.caller for listener in asked}
        living = await in_database(_living, executor=pool)(callers)
        for listener in asked:
            if listener.caller not in living:
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


def _living(callers: Collection[Caller]) -> set[Caller]:
    """Those whose key may still follow the models."""
    is_valid = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    ids = [caller.key_id for caller in callers if caller.key_id is not None]
    keys = ApiKey.objects.filter(is_valid, pk__in=ids, revoked_at=None)
    living = set(keys.values_list("pk", flat=True))
    return {c for c in callers if c.key_id in living and is_administrator(c, "change")}


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
