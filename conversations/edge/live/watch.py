"""One look at the database for all live connections of a process, instead of one each.

Every LOOK_S, and at once after a notice, the Watch asks in three queries which sessions live, which
users are active under which password, and how far each feed is. Then it tells the connections.
Notices come over the channel layer, which loses messages: they only save time.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from typing import Any, Final, Protocol

from channels.layers import get_channel_layer

from conversations.edge.live.board import ModelBoard
from conversations.edge.live.bounds import MAX_CONNECTIONS_PER_USER
from conversations.edge.live.instruments import count_refused
from conversations.edge.live.reasons import Reasons
from conversations.edge.live.sign_in import Facts, SignIn, facts_read
from conversations.edge.live.tasks_end import tasks_end
from conversations.edge.live.threads import LiveThreads
from conversations.edge.schemas import ModelOut
from conversations.edge.session_auth import SIGNED_OUT
from conversations.notices import feed_group
from llamaweb.lib.errors import AuthenticationError, BusyError, LlamawebError, UnavailableError

LOOK_S: Final = 0.75  # a revocation must be seen within a second
LOOKS_APART_S: Final = 0.05  # notices in between are joined
GROUPS_AGAIN_S: Final = 60.0  # memberships are lost with the server that holds them
LAYER_TIMEOUT_S: Final = 5.0
BACKOFF_S: Final = 0.1
BACKOFF_CAP_S: Final = 2.0

log = logging.getLogger(__name__)


class Watched(Protocol):
    """A live connection, as the Watch sees it."""

    sign_in: SignIn

    def feed_is_at(self, revision: int) -> None:
        """How far the user's feed is; called often, also without news."""

    def models_are(self, models: tuple[ModelOut, ...]) -> None:
        """What the user may choose among; called often, also without news."""

    def end(self, error: Exception) -> None:
        """Close the connection, with the code of `error`."""


class Watch:
    """Belongs to one event loop; runs while anybody is connected. See `watch_here`."""

    def __init__(self) -> None:
        self.threads = LiveThreads()
        self.reasons = Reasons()
        self._board = ModelBoard(self.threads, lambda: self._by_user, self._tell_models)
        self._by_user: dict[int, set[Watched]] = {}
        self._news = asyncio.Event()
        self._groups_wanted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.num_looks = 0

    @property
    def num_connections(self) -> int:
        """How many are connected now."""
        return sum(map(len, self._by_user.values()))

    def add(self, connection: Watched) -> None:
        """Watch over a connection; pair of `remove`.

        Raises:
            BusyError: the user has too many in this process.
        """
        mine = self._by_user.setdefault(connection.sign_in.user.pk, set())
        if len(mine) >= MAX_CONNECTIONS_PER_USER:
            count_refused("connections")
            raise BusyError(
                f"you have {MAX_CONNECTIONS_PER_USER} live connections; close a tab",
                reason="connections",
                retry_after_s=10.0,
            )
        mine.add(connection)
        self._groups_wanted.set()
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._run(), name="live-watch"),
                asyncio.create_task(self._listen(), name="live-notices"),
                asyncio.create_task(self._board.run(), name="live-models"),
            ]

    async def remove(self, connection: Watched) -> None:
        """Watch no more; the last one ends the Watch."""
        user_id = connection.sign_in.user.pk
        mine = self._by_user.get(user_id, set())
        mine.discard(connection)
        if not mine:
            self._by_user.pop(user_id, None)
        if not self._by_user:
            await self.close()

    async def close(self) -> None:
        """End its tasks and threads."""
        if _by_loop.get(asyncio.get_running_loop()) is self:
            del _by_loop[asyncio.get_running_loop()]
        tasks, self._tasks = self._tasks, []
        await tasks_end(tasks)
        self.threads.close()

    def end_all(self, error: Exception) -> None:
        """Close every connection with the code of `error`."""
        for connection in [each for mine in self._by_user.values() for each in mine]:
            connection.end(error)

    def look_soon(self) -> None:
        """Something changed."""
        self._news.set()

    async def _run(self) -> None:
        while True:
            started_ts = time.monotonic()
            self._news.clear()
            try:
                await self._look()
            except LlamawebError as error:
                log.warning("live connections can't be checked: %s", error)
            except Exception:
                log.exception("live connections can't be checked")
            await asyncio.sleep(LOOKS_APART_S)
            try:
                async with asyncio.timeout(max(0.0, started_ts + LOOK_S - time.monotonic())):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _look(self) -> None:
        asked = [each for mine in self._by_user.values() for each in mine]
        keys = {each.sign_in.session_key for each in asked}
        facts = await self.threads.run(facts_read, keys, {each.sign_in.user.pk for each in asked})
        self.num_looks += 1
        for connection in asked:
            self._tell(connection, facts)

    def _tell(self, connection: Watched, facts: Facts) -> None:
        if not facts.holds(connection.sign_in):
            connection.end(AuthenticationError(SIGNED_OUT))
        else:
            connection.feed_is_at(facts.feed_revisions.get(connection.sign_in.user.pk, 0))

    def _tell_models(self, user_id: int, models: tuple[ModelOut, ...]) -> None:
        for connection in self._by_user.get(user_id, ()):
            connection.models_are(models)

    # --- notices

    async def _listen(self) -> None:
        backoff_s = BACKOFF_S
        while True:
            try:
                await self._hear()
                backoff_s = BACKOFF_S
                continue
            except Exception as error:  # whatever the layer's server does: we only lose time
                log.info("no notices for a moment: %s", type(error).__name__)
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, BACKOFF_CAP_S)

    async def _hear(self) -> None:
        """Be in the groups of all who are connected, and pass notices on, for GROUPS_AGAIN_S."""
        layer = get_channel_layer()
        if layer is None:
            raise UnavailableError("there is no channel layer")
        channel = await layer.new_channel("live")
        joined: set[str] = set()
        receiver = asyncio.create_task(self._receive(layer, channel), name="live-receive")
        wanted: asyncio.Task[Any] | None = None
        try:
            until_ts = time.monotonic() + GROUPS_AGAIN_S
            while not receiver.done() and time.monotonic() < until_ts:
                self._groups_wanted.clear()
                groups = {feed_group(user_id) for user_id in self._by_user}
                await self._move(layer, channel, joined, groups)
                wanted = asyncio.create_task(self._groups_wanted.wait())
                await asyncio.wait(
                    {receiver, wanted},
                    timeout=GROUPS_AGAIN_S,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                wanted.cancel()
            if receiver.done():
                receiver.result()
        finally:
            await tasks_end([receiver, wanted])
            for group in joined:
                async with asyncio.timeout(LAYER_TIMEOUT_S):
                    await layer.group_discard(group, channel)

    async def _move(self, layer: Any, channel: str, joined: set[str], groups: set[str]) -> None:
        async with asyncio.timeout(LAYER_TIMEOUT_S):
            for group in groups - joined:
                await layer.group_add(group, channel)
                joined.add(group)
                self._news.set()  # what was said before we listened
            for group in joined - groups:
                joined.remove(group)
                await layer.group_discard(group, channel)

    async def _receive(self, layer: Any, channel: str) -> None:
        while True:
            await layer.receive(channel)
            self.look_soon()


_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Watch] = weakref.WeakKeyDictionary()


def watch_here() -> Watch:
    """The running event loop's Watch."""
    loop = asyncio.get_running_loop()
    watch = _by_loop.get(loop)
    if watch is None:
        watch = _by_loop[loop] = Watch()
    return watch


def end_all_here(error: Exception) -> None:
    """Close every live connection of this process."""
    watch = _by_loop.get(asyncio.get_running_loop())
    if watch is not None:
        watch.end_all(error)
