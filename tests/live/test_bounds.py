"""Frames that are wrong, too large, too many; clients that are too slow."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from conversations import services
from conversations.edge.live import bounds, consumer, watch, window
from conversations.edge.live.bounds import MAX_BAD_FRAMES, MAX_CONNECTIONS_PER_USER, MAX_OPEN
from conversations.models import Conversation, Message
from inference.protocol.events import Delta
from tests.conversations.driving import Engine, say
from tests.live.clients import WAIT_S, Sockets
from tests.until import until

pytestmark = pytest.mark.django_db(transaction=True)

WRONG = [
    ("no json", None),
    ("[]", None),
    ("{}", None),
    ('{"type": "nothing"}', None),
    ('{"type": "open"}', "conversation_id"),
    ('{"type": "open", "conversation_id": "../x"}', "conversation_id"),
    ('{"type": "open", "conversation_id": "c", "revision": -1}', "revision"),
    ('{"type": "open", "conversation_id": "c", "cursors": {"g": "x"}}', "cursors.g"),
    ('{"type": "ack", "n": 999}', "n"),
    ('{"type": "ping", "more": 1}', "more"),
    ('{"type": "act", "ref": "", "name": "x", "args": {}}', "ref"),
    ("[" * 100_000, None),
]


@pytest.mark.parametrize(("text", "param"), WRONG)
async def test_a_wrong_frame_is_refused_by_field_and_the_socket_stays(
    sockets: Sockets, alice: Any, text: str, param: str | None
) -> None:
    socket = await sockets.greeted(alice)
    await socket.communicator.send_to(text_data=text)
    frame = await socket.until(lambda frame: frame["type"] == "error")
    assert frame["error"]["code"] == "invalid"
    if param is not None:
        assert frame["error"]["param"] == param
    await socket.send("ping")
    await socket.until(lambda frame: frame["type"] == "pong")


async def test_wrong_frames_again_and_again_close(sockets: Sockets, alice: Any) -> None:
    socket = await sockets.greeted(alice)
    for _ in range(MAX_BAD_FRAMES - 1):
        await socket.communicator.send_to(bytes_data=b"\x00")
        await socket.until(lambda frame: frame["type"] == "error")
    await socket.communicator.send_to(bytes_data=b"\x00")
    assert await socket.closed() == 4400


async def test_the_last_connection_ends_once(sockets: Sockets, alice: Any) -> None:
    socket = await sockets.greeted(alice)
    for _ in range(MAX_BAD_FRAMES):
        await socket.communicator.send_to(bytes_data=b"\x00")
    assert await socket.closed() == 4400
    ended = watch.watch_here()
    await until(lambda: not ended.num_connections, WAIT_S)
    await socket.drop()  # the client's answer, after everything was given back; raises nothing


async def test_the_first_frame_is_hello(sockets: Sockets, alice: Any) -> None:
    socket = await sockets.connect(alice)
    await socket.send("ping")
    frame = await socket.until(lambda frame: frame["type"] == "error")
    assert frame["error"]["param"] == "type"
    await socket.hello()


async def test_hello_has_its_time(
    sockets: Sockets, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "HELLO_S", 0.05)
    socket = await sockets.connect(alice)
    assert await socket.closed() == 4408


async def test_a_frame_beyond_the_bound_closes(
    sockets: Sockets, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "MAX_FRAME_BYTES", 1000)
    socket = await sockets.greeted(alice)
    await socket.act("conversation.create", title="x" * 100)
    await socket.communicator.send_to(text_data=" " * 1001)
    assert await socket.closed() == 1009


async def test_a_flood_of_frames_closes(sockets: Sockets, alice: Any) -> None:
    socket = await sockets.greeted(alice)
    socket.acks = False
    for _ in range(int(bounds.FRAMES_BURST) + 50):
        await socket.send("ping")
    assert await socket.closed() == 4429


async def test_too_many_acts_are_refused_one_by_one(
    sockets: Sockets, alice: Any, chat: Any
) -> None:
    socket = await sockets.greeted(alice)
    count = int(bounds.ACTS_BURST) + 20
    for number in range(count):
        args = {"conversation_id": chat.id, "title": f"t{number}"}
        await socket.send("act", ref=str(number), name="conversation.rename", args=args)
    replies: dict[str, Any] = {}
    while len(replies) < count:
        frame = await socket.next()
        if frame["type"] == "reply":
            replies[frame["ref"]] = frame["error"]
    refused = [error for error in replies.values() if error]
    assert 0 < len(refused) < count
    assert {error["code"] for error in refused} == {"busy"}
    assert all(error["retryable"] and error["retry_after_s"] for error in refused)


async def test_the_oldest_conversation_gives_way(sockets: Sockets, alice: Any, chat: Any) -> None:
    socket = await sockets.greeted(alice, chat)
    for _ in range(MAX_OPEN):
        other = await sync_to_async(services.conversation_create)(user=alice)
        await socket.open(other.id)
    closed = [frame for frame in socket.frames if frame["type"] == "closed"]
    assert [(frame["conversation_id"], frame["reason"]) for frame in closed] == [
        (chat.id, "too_many")
    ]


async def test_closing_is_confirmed_and_ends_the_frames(
    sockets: Sockets, alice: Any, chat: Any
) -> None:
    socket = await sockets.greeted(alice, chat)
    await socket.send("close", conversation_id=chat.id)
    frame = await socket.until(lambda frame: frame["type"] == "closed")
    assert frame["reason"] == "asked"
    await sync_to_async(say)(alice, chat)
    await socket.see(lambda view: view.rows[chat.id]["is_running"])
    assert all(frame["type"] != "stream" for frame in socket.frames)


async def test_too_many_connections_of_one_user(
    sockets: Sockets, alice: Any, bob: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "MAX_CONNECTIONS_PER_USER", 2)
    assert MAX_CONNECTIONS_PER_USER > 2
    first = await sockets.greeted(alice)
    await sockets.greeted(alice)
    assert await (await sockets.connect(alice)).closed() == 4429
    await sockets.greeted(bob)  # it is hers alone
    await first.drop()
    await sockets.greeted(alice)


async def test_a_slow_client_gets_more_in_fewer_frames_and_misses_nothing(
    sockets: Sockets,
    alice: Any,
    chat: Any,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer, "Window", lambda write: window.Window(write, window_bytes=4000))
    turn = await sync_to_async(say)(alice, chat)
    gid = turn.generation_id
    await sync_to_async(engine.claim)()
    socket = await sockets.greeted(alice, chat)
    await socket.see(lambda view: gid in view.texts)
    socket.acks = False
    words = [f"word{number} " for number in range(1500)]
    for number, word in enumerate(words):
        await sync_to_async(engine.write)(gid, Delta(word, (number,)))
    await sync_to_async(engine.end)(gid)
    await socket.send("ping")  # is answered, though nothing else is sent any more
    await socket.until(lambda frame: frame["type"] == "pong")
    with contextlib.suppress(TimeoutError):
        while gid not in socket.view.ends:
            await socket.next(0.5)
    assert gid not in socket.view.ends
    held = len(socket.frames)
    socket.acks = True
    await socket.send("ack", n=held)
    await socket.see(lambda view: gid in view.ends)
    assert socket.view.texts[gid] == "".join(words)
    assert len(socket.frames) - held < 30  # of 1500 events


async def test_a_client_that_takes_nothing_in_is_closed(
    sockets: Sockets,
    alice: Any,
    chat: Any,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        consumer, "Window", lambda write: window.Window(write, window_bytes=10, stall_s=0.2)
    )
    socket = await sockets.connect(alice)
    socket.acks = False
    await socket.send("hello")
    await socket.send("open", conversation_id=chat.id)
    assert await socket.closed() == 4408


async def test_a_long_conversation_comes_in_chunks(sockets: Sockets, alice: Any, chat: Any) -> None:
    now = timezone.now()
    await Message.objects.abulk_create(
        [
            Message(
                conversation=chat,
                number=number,
                role="user",
                revision=1,
                created_at=now,
                parts=[{"type": "text", "text": f"message {number}" * 20}],
            )
            for number in range(1, 2001)
        ]
    )
    await Conversation.objects.filter(id=chat.id).aupdate(last_number=2000)
    socket = await sockets.greeted(alice, chat)
    frames = [frame for frame in socket.frames if frame["type"] == "conversation"]
    assert len(frames) >= 10
    assert max(len(frame["messages"]) for frame in frames) <= 200
    assert [frame["reset"] for frame in frames] == [True] + [False] * (len(frames) - 1)
    assert [frame["has_more"] for frame in frames] == [True] * (len(frames) - 1) + [False]
    assert {frame["revision"] for frame in frames[:-1]} == {0}
    assert len(socket.view.chats[chat.id]["messages"]) == 2000
