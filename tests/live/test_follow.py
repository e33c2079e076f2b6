"""Hello, open, and what comes then: text once and whole, whatever is cut."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from conversations import services
from conversations.models import Conversation, Message
from inference import bus
from inference.protocol.events import Delta, Failed, Finished
from inference.queues.keys import model_keys
from tests.conversations.driving import USAGE, Engine, say, text
from tests.live.clients import WAIT_S, Socket, Sockets
from tests.until import until

pytestmark = pytest.mark.django_db(transaction=True)


async def ended_like_stored(socket: Socket, chat: Any, answer_id: str, gid: str) -> str:
    """Wait for the stored answer; both texts are the same bytes."""
    await socket.see(
        lambda view: view.chats[chat.id]["messages"][answer_id]["state"] != "streaming"
    )
    stored = await sync_to_async(text)(await Message.objects.aget(id=answer_id))
    shown = socket.view.chats[chat.id]["messages"][answer_id]["parts"]
    assert stored == "".join(part["text"] for part in shown)
    assert socket.view.texts[gid] == stored
    return stored


async def test_an_answer_is_followed_from_its_place_in_the_queue_to_the_stored_text(
    sockets: Sockets, alice: Any, chat: Any, engine: Engine
) -> None:
    socket = await sockets.greeted(alice, chat)
    reply = await socket.act(
        "turn.start", conversation_id=chat.id, parts=[{"type": "text", "text": "hi"}]
    )
    assert reply["error"] is None
    answer_id = reply["result"]["answer_id"]
    await socket.see(lambda view: view.places)
    (gid,) = await sync_to_async(engine.claim)()
    for letter in "ok 😺 漢字 é":  # case T05
        await sync_to_async(engine.write)(gid, Delta(letter, (77001,)))
    await socket.see(lambda view: view.texts.get(gid) == "ok 😺 漢字 é")
    await sync_to_async(engine.end)(gid)
    await socket.see(lambda view: gid in view.ends)
    assert socket.view.ends[gid]["state"] == "finished"
    await sync_to_async(services.turn_advance)(gid)
    await ended_like_stored(socket, chat, answer_id, gid)
    await socket.see(lambda view: not view.rows[chat.id]["is_running"])
    said = str(socket.frames)
    assert "77001" not in said
    assert "logprobs" not in said
    assert "\ufffd" not in said


async def test_reload_drop_and_a_second_tab(
    sockets: Sockets, alice: Any, chat: Any, engine: Engine
) -> None:
    """Case C01: each view ends as the stored text; no token twice, none lost."""
    turn = await sync_to_async(say)(alice, chat)
    gid = turn.generation_id
    await sync_to_async(engine.claim)()
    words = [f"{number} " for number in range(2000)]

    async def write(begin: int, end: int) -> None:
        for number in range(begin, end, 20):
            deltas = [Delta(word, (1,)) for word in words[number : number + 20]]
            await sync_to_async(engine.write)(gid, *deltas)

    first = await sockets.greeted(alice, chat)
    await write(0, 600)
    await first.see(lambda view: view.texts.get(gid, "").endswith("599 "))
    await first.drop()  # a reload: the new page knows nothing
    reloaded = await sockets.greeted(alice, chat)
    await write(600, 1200)
    await reloaded.see(lambda view: view.texts.get(gid, "").endswith("1199 "))
    await reloaded.drop()  # the network: the page keeps what it has
    await write(1200, 1600)
    back = await sockets.connect(alice, view=reloaded.view)
    await back.hello(back.view.feed)
    await back.open(chat.id)
    second = await sockets.greeted(alice, chat)
    await write(1600, 2000)
    await sync_to_async(engine.end)(gid)
    for socket in (back, second):
        await socket.see(lambda view: gid in view.ends)
    await sync_to_async(services.turn_advance)(gid)
    for socket in (back, second):
        assert await ended_like_stored(socket, chat, turn.answer_id, gid) == "".join(words)
    streams = [frame for frame in back.frames if frame["type"] == "stream"]
    assert not any(frame["reset"] for frame in streams)  # nothing was sent again
    conversations = [frame for frame in back.frames if frame["type"] == "conversation"]
    assert not any(frame["reset"] for frame in conversations)


async def test_an_answer_that_ended_and_was_stored_while_nobody_looked(
    sockets: Sockets, alice: Any, chat: Any, engine: Engine
) -> None:
    turn = await sync_to_async(say)(alice, chat)
    socket = await sockets.greeted(alice, chat)
    await socket.drop()
    await sync_to_async(engine.answer)(turn, "the answer")
    back = await sockets.connect(alice, view=socket.view)
    await back.hello(back.view.feed)
    await back.open(chat.id)
    message = back.view.chats[chat.id]["messages"][turn.answer_id]
    assert message["state"] == "done"
    assert message["parts"][0]["text"] == "the answer"
    assert not back.view.rows[chat.id]["is_running"]
    assert all(frame["type"] != "stream" for frame in back.frames)


async def test_an_answer_that_ended_but_is_not_stored_yet_is_sent_whole(
    sockets: Sockets, alice: Any, chat: Any, engine: Engine
) -> None:
    turn = await sync_to_async(say)(alice, chat)
    gid = turn.generation_id
    await sync_to_async(engine.claim)()
    await sync_to_async(engine.end)(gid, text="all of it")
    socket = await sockets.greeted(alice, chat)
    await socket.see(lambda view: gid in view.ends)
    assert socket.view.texts[gid] == "all of it"
    await sync_to_async(services.turn_advance)(gid)
    await ended_like_stored(socket, chat, turn.answer_id, gid)


async def test_a_log_that_is_gone_is_followed_by_the_stored_answer(
    sockets: Sockets,
    alice: Any,
    chat: Any,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inference.queues.reader.GONE_PATIENCE_S", 0.2)
    turn = await sync_to_async(say)(alice, chat)
    gid = turn.generation_id
    await sync_to_async(engine.claim)()
    await sync_to_async(engine.write)(gid, Delta("some", (1,)))
    socket = await sockets.greeted(alice, chat)
    await socket.see(lambda view: view.texts.get(gid) == "some")
    await sync_to_async(engine.end)(gid, text=" text")
    await socket.see(lambda view: gid in view.ends)
    await socket.drop()

    def lose() -> None:
        queue: Any = bus.sync_queue()
        keys = model_keys(queue.prefix, "mock")
        for key in (keys.stream(gid), keys.generation(gid)):
            queue._client.delete(key)

    await sync_to_async(lose)()
    back = await sockets.greeted(alice, chat)
    await back.see(lambda view: gid in view.ends)
    assert back.view.ends[gid]["state"] == "gone"
    await sync_to_async(services.turn_sweep)()
    await back.send("ping")
    await back.until(lambda frame: frame["type"] == "pong")  # the socket stays


async def test_an_engine_that_fails_in_the_middle(
    sockets: Sockets, alice: Any, chat: Any, engine: Engine
) -> None:
    """Case T11: the partial text stays, with the reason and Retry."""
    turn = await sync_to_async(say)(alice, chat)
    gid = turn.generation_id
    socket = await sockets.greeted(alice, chat)
    await sync_to_async(engine.claim)()
    for number in range(10):
        await sync_to_async(engine.write)(gid, Delta(f"{number}", (number,)))
    await sync_to_async(engine.end)(gid, Failed("engine_failed", "the model failed"))
    await socket.see(lambda view: gid in view.ends)
    assert socket.view.ends[gid] == {
        "state": "failed", "code": "engine_failed", "message": "the model failed",
    }  # fmt: skip
    await sync_to_async(services.turn_advance)(gid)
    assert await ended_like_stored(socket, chat, turn.answer_id, gid) == "0123456789"
    seen = socket.view.chats[chat.id]
    assert seen["messages"][turn.answer_id]["state"] == "failed"
    assert seen["turns"][turn.id]["can_retry"]
    reply = await socket.act("turn.retry", turn_id=turn.id)
    (again,) = await sync_to_async(engine.claim)()
    await sync_to_async(engine.write)(again, Delta("better", (1,)))
    await socket.see(lambda view: view.texts.get(again) == "better")
    assert reply["result"]["turn_id"] != turn.id


async def test_stop_in_the_queue_and_while_it_runs(
    sockets: Sockets, alice: Any, chat: Any, engine: Engine
) -> None:
    """Case C07, but for prefill, which needs a real engine (test_stack)."""
    socket = await sockets.greeted(alice, chat)
    queued = await sync_to_async(say)(alice, chat, "queued")
    await socket.see(lambda view: queued.generation_id in view.places)
    reply = await socket.act("turn.stop", turn_id=queued.id)
    assert reply["result"]["was_stopped"]
    await socket.see(lambda view: queued.generation_id in view.ends)
    assert socket.view.ends[queued.generation_id]["state"] == "cancelled"
    assert await sync_to_async(engine.claim)() == []
    await sync_to_async(services.turn_advance)(queued.generation_id)
    running = await sync_to_async(say)(alice, chat, "running")
    await sync_to_async(engine.claim)()
    await sync_to_async(engine.write)(running.generation_id, Delta("partial", (1,)))
    await socket.see(lambda view: view.texts.get(running.generation_id) == "partial")
    await socket.act("turn.stop", turn_id=running.id)
    await socket.see(lambda view: view.chats[chat.id]["turns"][running.id]["is_stopping"])
    assert set(await sync_to_async(engine.cancelled)()) == {running.generation_id}
    await sync_to_async(engine.end)(running.generation_id, Finished("stop", USAGE))


async def test_nothing_of_a_client_that_left_is_left(
    sockets: Sockets, alice: Any, chat: Any, engine: Engine
) -> None:
    turn = await sync_to_async(say)(alice, chat)
    await sync_to_async(engine.claim)()
    await sync_to_async(engine.write)(turn.generation_id, Delta("x", (1,)))
    socket = await sockets.greeted(alice, chat)
    await socket.see(lambda view: view.texts.get(turn.generation_id) == "x")
    assert bus.loop_bus().reader.num_readers == 1
    await socket.drop()
    assert bus.loop_bus().reader.num_readers == 0
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not [name for name in names if name.startswith("live-")]
    await sync_to_async(engine.write)(turn.generation_id, Delta("y", (1,)))  # it goes on


async def test_opening_again_repeats_nothing_that_is_on_its_way(
    alice: Any, chat: Conversation, engine: Engine, sockets: Sockets
) -> None:
    turn = await sync_to_async(say)(alice, chat)
    await sync_to_async(engine.claim)()
    await sync_to_async(engine.write)(turn.generation_id, Delta("one ", (1,)))
    socket = await sockets.greeted(alice, chat)
    await socket.see(lambda view: view.texts.get(turn.generation_id) == "one ")
    await sync_to_async(engine.write)(turn.generation_id, Delta("two ", (2,)))
    sent = socket.communicator.output_queue._queue  # not taken in yet
    await until(lambda: "two " in str(sent), WAIT_S)
    known = socket.view.chats[chat.id]["revision"]
    cursors = dict(socket.view.cursors)
    await socket.send("open", conversation_id=chat.id, revision=known, cursors=cursors)
    await sync_to_async(engine.write)(turn.generation_id, Delta("three", (3,)))
    await sync_to_async(engine.end)(turn.generation_id)
    await socket.see(lambda view: turn.generation_id in view.ends)
    assert socket.view.texts[turn.generation_id] == "one two three"


async def test_opening_again_without_a_cursor_brings_all_of_it(
    alice: Any, chat: Conversation, engine: Engine, sockets: Sockets
) -> None:
    turn = await sync_to_async(say)(alice, chat)
    await sync_to_async(engine.claim)()
    await sync_to_async(engine.write)(turn.generation_id, Delta("one ", (1,)))
    socket = await sockets.greeted(alice, chat)
    await socket.see(lambda view: view.texts.get(turn.generation_id) == "one ")
    socket.view.texts.clear()
    await socket.send("open", conversation_id=chat.id, revision=None, cursors={})
    await sync_to_async(engine.end)(turn.generation_id, None, "two")
    await socket.see(lambda view: turn.generation_id in view.ends)
    assert socket.view.texts[turn.generation_id] == "one two"
