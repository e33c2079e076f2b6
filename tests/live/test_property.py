"""Whatever two people, an engine and the network do: what each page has, plus the frames it gets,
is what a page opened now would have."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from conversations import services
from conversations.edge.mappers import conversation_out, state_out
from conversations.models import OPEN_STATES, Conversation, Feed, Message, Turn
from conversations.selectors import MAX_LIST, conversation_page, conversation_snapshot
from inference import api
from inference.protocol.events import Cancelled, Delta, Failed, Finished
from inference.protocol.fold import EMPTY, fold, text_of
from llamaweb.lib.errors import LlamawebError
from tests.conversations.driving import Engine
from tests.factories import UserFactory
from tests.live.clients import Socket, Sockets, View, session_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]
SETTLE_S = 30.0
STEPS = [
    *("start", "start", "start", "stop", "retry", "regenerate", "edit", "delete", "select"),
    *("rename", "write", "write", "write", "write", "finish", "fail", "obey", "advance", "sweep"),
    *("read", "read", "read", "cut", "cut", "connect", "connect", "reload", "share", "unshare"),
]
SCRIPTS = st.lists(
    st.tuples(st.sampled_from(STEPS), st.sampled_from([0, 1]), st.integers(0, 30)),
    min_size=10,
    max_size=30,
)


class Page:
    """Somebody's browser tab: what it has, and its connection if there is one."""

    def __init__(self, user: Any, session: str) -> None:
        self.user = user
        self.session = session
        self.view = View()
        self.socket: Socket | None = None

    async def connect(self, sockets: Sockets, chat_id: str) -> None:
        """Take up again from what the page has."""
        if self.socket is None:
            self.socket = await sockets.connect(session=self.session, view=self.view)
            await self.socket.send("hello", feed=self.view.feed)
            await self.follow(chat_id)

    async def follow(self, chat_id: str) -> None:
        """Open the conversation, without waiting for the answer."""
        assert self.socket is not None
        known = self.view.chats.get(chat_id, {}).get("revision")
        cursors = dict(list(self.view.cursors.items())[-16:])
        await self.socket.send("open", conversation_id=chat_id, revision=known, cursors=cursors)

    async def cut(self) -> None:
        """The connection is gone; what was on its way is lost."""
        if self.socket is not None:
            await self.socket.drop()
            self.socket = None


class World:
    """One conversation, two people, an engine."""

    def __init__(self, engine: Engine, sockets: Sockets) -> None:
        self.engine = engine
        self.sockets = sockets
        self.refs = 0

    async def build(self) -> None:
        self.users = [await sync_to_async(UserFactory.create)() for _ in range(2)]
        make = sync_to_async(services.conversation_create)
        self.chat = await make(user=self.users[0])
        self.pages = [Page(user, await sync_to_async(session_of)(user)) for user in self.users]
        await self.do_share(0, 0)
        for page in self.pages:
            await page.connect(self.sockets, self.chat.id)

    async def step(self, name: str, who: int, pick: int) -> None:
        method: Callable[[int, int], Awaitable[None]] = getattr(self, f"do_{name}")
        with contextlib.suppress(LlamawebError):
            await method(who, pick)

    async def act(self, who: int, name: str, **args: Any) -> None:
        """Over the socket, without waiting for the reply; nothing without a connection."""
        socket = self.pages[who].socket
        if socket is not None:
            self.refs += 1
            await socket.send("act", ref=str(self.refs), name=name, args=args)

    async def message(self, pick: int) -> str:
        rows = [
            row async for row in Message.objects.filter(conversation=self.chat).order_by("number")
        ]
        return rows[pick % len(rows)].id if rows else "nobody"

    async def turn(self, pick: int) -> str:
        rows = [row async for row in Turn.objects.filter(conversation=self.chat).order_by("id")]
        return rows[pick % len(rows)].id if rows else "nobody"

    async def do_start(self, who: int, pick: int) -> None:
        parts = [{"type": "text", "text": f"message {pick}"}]
        await self.act(who, "turn.start", conversation_id=self.chat.id, parts=parts)

    async def do_stop(self, who: int, pick: int) -> None:
        await self.act(who, "turn.stop", turn_id=await self.turn(pick))

    async def do_retry(self, who: int, pick: int) -> None:
        await self.act(who, "turn.retry", turn_id=await self.turn(pick))

    async def do_regenerate(self, who: int, pick: int) -> None:
        await self.act(who, "message.regenerate", message_id=await self.message(pick))

    async def do_edit(self, who: int, pick: int) -> None:
        parts = [{"type": "text", "text": f"edit {pick}"}]
        message_id = await self.message(pick)
        await self.act(
            who, "message.edit", message_id=message_id, parts=parts, in_place=pick % 2 == 0
        )

    async def do_delete(self, who: int, pick: int) -> None:
        await self.act(who, "message.delete", message_id=await self.message(pick))

    async def do_select(self, who: int, pick: int) -> None:
        message_id = await self.message(pick)
        await self.act(who, "leaf.select", conversation_id=self.chat.id, message_id=message_id)

    async def do_rename(self, who: int, pick: int) -> None:
        await self.act(
            who, "conversation.rename", conversation_id=self.chat.id, title=f"title {pick}"
        )

    async def do_share(self, _who: int, _pick: int) -> None:
        grant = sync_to_async(services.share_grant)
        owner, other = self.users
        await grant(user=owner, conversation_id=self.chat.id, to=other, can_write=True)

    async def do_unshare(self, _who: int, pick: int) -> None:
        owner, other = self.users
        if pick % 3 == 0:
            revoke = sync_to_async(services.share_revoke)
            await revoke(user=owner, conversation_id=self.chat.id, to=other)

    async def running(self, pick: int) -> str | None:
        await sync_to_async(self.engine.claim)()
        ids = sorted(self.engine.running)
        return ids[pick % len(ids)] if ids else None

    async def do_write(self, _who: int, pick: int) -> None:
        if generation_id := await self.running(pick):
            deltas = [Delta(f"<{pick}.{part}>", (pick,)) for part in range(pick % 4 + 1)]
            await sync_to_async(self.engine.write)(generation_id, *deltas)

    async def do_finish(self, _who: int, pick: int) -> None:
        if generation_id := await self.running(pick):
            await sync_to_async(self.engine.end)(generation_id, Finished("stop"))

    async def do_fail(self, _who: int, pick: int) -> None:
        if generation_id := await self.running(pick):
            await sync_to_async(self.engine.end)(generation_id, Failed("engine_failed", "no"))

    async def do_obey(self, _who: int, _pick: int) -> None:
        for generation_id in await sync_to_async(self.engine.cancelled)():
            await sync_to_async(self.engine.end)(generation_id, Cancelled("user"))

    async def do_advance(self, _who: int, pick: int) -> None:
        for _, entry in (await sync_to_async(self.engine.queue.finished)())[: pick % 3 + 1]:
            await sync_to_async(services.turn_advance)(entry.generation_id)

    async def do_sweep(self, _who: int, _pick: int) -> None:
        await sync_to_async(services.turn_sweep)()

    async def do_read(self, who: int, pick: int) -> None:
        """Take in some of what has come."""
        socket = self.pages[who].socket
        with contextlib.suppress(TimeoutError):
            for _ in range(pick if socket else 0):
                await socket.next(0.02)  # type: ignore[union-attr]

    async def do_cut(self, who: int, _pick: int) -> None:
        await self.pages[who].cut()

    async def do_connect(self, who: int, _pick: int) -> None:
        await self.pages[who].connect(self.sockets, self.chat.id)

    async def do_reload(self, who: int, _pick: int) -> None:
        await self.pages[who].cut()
        self.pages[who].view = View()
        await self.pages[who].connect(self.sockets, self.chat.id)

    # --- the end

    async def check(self) -> None:
        """Acts that run come to their end; then every page shows what is."""
        for page in self.pages:
            await page.connect(self.sockets, self.chat.id)
            assert page.socket is not None
            self.refs += 1
            ref = str(self.refs)
            await page.socket.send("act", ref=ref, name="nothing", args={})
            await page.socket.until(lambda frame, ref=ref: frame.get("ref") == ref, SETTLE_S)
        await self.do_share(0, 0)  # who lost it, and got it again, opens it again
        for page in self.pages:
            feed = await Feed.objects.aget(user=page.user)
            assert page.socket is not None
            # What was closed on the way isn't there any more when it is opened again.
            await page.socket.see(lambda view, feed=feed: view.feed == feed.revision, SETTLE_S)
            await page.follow(self.chat.id)
            await self.settled(page)

    async def settled(self, page: Page) -> None:
        assert page.socket is not None
        rows, state, feed, texts = await sync_to_async(self.fresh)(page.user)

        def is_there(view: View) -> bool:
            chat = view.chats.get(self.chat.id)
            return bool(
                chat
                and not chat["has_more"]
                and chat["revision"] == state["revision"]
                and view.feed == feed
                and all(view.texts.get(key, "") == text for key, text in texts.items() if text)
            )

        with contextlib.suppress(TimeoutError):
            await page.socket.see(is_there, SETTLE_S)
        seen = page.view.chats[self.chat.id]
        assert seen["conversation"] == state["conversation"]
        assert seen["messages"] == {row["id"]: row for row in state["messages"]}
        assert seen["turns"] == {row["id"]: row for row in state["turns"]}
        assert page.view.rows == rows
        assert {key: page.view.texts.get(key, "") for key in texts} == texts
        assert (page.view.feed, page.socket.code) == (feed, None)

    def fresh(self, user: Any) -> tuple[Any, Any, int, dict[str, str]]:
        """What a page opened now gets, and the text of every open turn."""
        rows = {
            view.id: conversation_out(view).model_dump(mode="json")
            for view in conversation_page(user=user, limit=MAX_LIST).conversations
        }
        snapshot = conversation_snapshot(user=user, conversation_id=self.chat.id)
        texts = {}
        for turn in Turn.objects.filter(conversation=self.chat, state__in=OPEN_STATES):
            read = self.engine.queue.read("mock", turn.generation_id, api.START)
            texts[turn.generation_id] = text_of(fold(read.reset or EMPTY, read.entries))
        feed = Feed.objects.get(user=user).revision
        return rows, state_out(snapshot).model_dump(mode="json"), feed, texts


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(script=SCRIPTS)
def test_old_state_and_frames_make_the_new_state(
    engine: Engine, script: list[tuple[str, int, int]]
) -> None:
    async def play() -> None:
        sockets = Sockets()
        world = World(engine, sockets)
        try:
            await world.build()
            for name, who, pick in script:
                await world.step(name, who, pick)
            await world.check()
        finally:
            await sockets.close()
            await api.streams_close()
            await sync_to_async(_forget)(engine)

    asyncio.run(play())


def _forget(engine: Engine) -> None:
    """What this example left running."""
    from django.db import connections

    for generation_id in list(engine.running):
        engine.end(generation_id, Cancelled("user"))
    Conversation.objects.all().delete()
    connections.close_all()
