"""Case C03: Redis goes away and comes back in the middle; sockets stay open."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from conversations import services
from conversations.edge.live.reasons import UNREACHABLE
from conversations.models import Message
from inference.protocol.events import Delta, Entry, Started
from inference.protocol.fold import EMPTY, fold
from tests.conversations.driving import Engine, say, text
from tests.live.clients import Sockets
from tests.servers import free_port, valkey

pytestmark = pytest.mark.django_db(transaction=True)


class Server:
    """A Redis that can be taken away; it keeps nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._running = contextlib.ExitStack()

    def start(self) -> str:
        return self._running.enter_context(valkey(self._folder, port=self._port))

    def stop(self) -> None:
        self._running.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def redis_server(server: Server) -> str:
    """In the place of the session's: sessions' cache and channel layer are away all the time."""
    return server.start()


async def test_a_stream_goes_on_when_redis_is_back(
    sockets: Sockets, alice: Any, chat: Any, engine: Engine, server: Server
) -> None:
    turn = await sync_to_async(say)(alice, chat)
    gid = turn.generation_id
    await sync_to_async(engine.claim)()
    await sync_to_async(engine.write)(gid, Delta("before ", (1,)))
    claim, seq = engine.running[gid]
    socket = await sockets.greeted(alice, chat)
    await socket.see(lambda view: view.texts.get(gid) == "before ")

    await sync_to_async(server.stop)()
    await socket.see(lambda view: view.places.get(gid, {}).get("reason") == UNREACHABLE, 30)
    reply = await socket.act("conversation.rename", conversation_id=chat.id, title="meanwhile")
    assert reply["error"] is None
    await socket.see(lambda view: view.rows[chat.id]["title"] == "meanwhile")
    other = await sockets.greeted(alice, chat)  # opens, with what the database has
    assert other.view.chats[chat.id]["messages"][turn.answer_id]["state"] == "streaming"

    await sync_to_async(server.start)()
    log = (Entry(0, Started(3, 1)), Entry(1, Delta("before ", (1,))))
    restored = await sync_to_async(engine.queue.restore)("e", claim, fold(EMPTY, log))
    assert restored
    assert seq == 2
    await sync_to_async(engine.write)(gid, Delta("after", (2,)))
    await sync_to_async(engine.end)(gid)
    for each in (socket, other):
        await each.see(lambda view: gid in view.ends, 30)
        assert each.view.texts[gid] == "before after"
    await sync_to_async(services.turn_advance)(gid)
    await socket.see(
        lambda view: view.chats[chat.id]["messages"][turn.answer_id]["state"] == "done"
    )
    stored = await sync_to_async(text)(await Message.objects.aget(id=turn.answer_id))
    assert stored == "before after"
    assert socket.code is None
    streams = [frame for frame in socket.frames if frame["type"] == "stream"]
    assert [frame["reset"] for frame in streams].count(True) == 1  # the first one


async def test_a_turn_started_while_redis_is_away_waits_with_a_reason(
    sockets: Sockets, alice: Any, chat: Any, engine: Engine, server: Server
) -> None:
    socket = await sockets.greeted(alice, chat)
    await sync_to_async(server.stop)()
    parts = [{"type": "text", "text": "hi"}]
    reply = await socket.act("turn.start", conversation_id=chat.id, parts=parts)
    assert reply["error"] is None
    await socket.see(lambda view: view.places)
    (place,) = socket.view.places.values()
    assert place["reason"] == UNREACHABLE
    await socket.send("ping")
    await socket.until(lambda frame: frame["type"] == "pong")
