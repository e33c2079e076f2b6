"""Hello, open, and what comes then: text once and whole, whatever is cut."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async

from conversations import services
from conversations.models import Message
from inference.protocol.events import Delta, Failed
from tests.conversations.driving import Engine, say, text
from tests.live.clients import Sockets

pytestmark = pytest.mark.django_db(transaction=True)


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
    for word in ("ok ", "😺 ", "漢字 é"):
        await sync_to_async(engine.write)(gid, Delta(word, (1, 2)))
    await socket.see(lambda view: view.texts.get(gid) == "ok 😺 漢字 é")
    await sync_to_async(engine.end)(gid)
    await socket.see(lambda view: gid in view.ends)
    assert socket.view.ends[gid]["state"] == "finished"
    await sync_to_async(services.turn_advance)(gid)
    await socket.see(lambda view: view.chats[chat.id]["messages"][answer_id]["state"] == "done")
    message = await Message.objects.aget(id=answer_id)
    stored = await sync_to_async(text)(message)
    shown = socket.view.chats[chat.id]["messages"][answer_id]["parts"]
    assert stored == "".join(part["text"] for part in shown) == socket.view.texts[gid]
    assert "token_ids" not in str(socket.frames)
    assert "logprobs" not in str(socket.frames)
    await socket.see(lambda view: not view.rows[chat.id]["is_running"])
