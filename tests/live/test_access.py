"""Who gets in, what they see, and that they are shown out within a second.

Notices are off here: what happens is the Watch's doing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as conf
from django.contrib.sessions.models import Session

from conversations import feed, services
from conversations.models import Conversation, Share
from inference.protocol.events import Delta
from llamaweb.accounts.services import api_key_revoke
from tests.conversations.driving import Engine, say
from tests.factories import make_key
from tests.live.clients import Sockets, session_of

pytestmark = pytest.mark.django_db(transaction=True)
SOON_S = 5.0  # for "within a second", on a busy machine


@pytest.fixture(autouse=True)
def no_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "feed_notice", lambda user_ids: None)


async def streaming(chat: Any, user: Any, engine: Engine) -> str:
    """A turn with some text; its generation's id."""
    turn = await sync_to_async(say)(user, chat, "secret question")
    await sync_to_async(engine.claim)()
    await sync_to_async(engine.write)(turn.generation_id, Delta("secret", (1,)))
    return str(turn.generation_id)


async def test_owner_and_who_it_is_shared_with_see_the_stream(
    sockets: Sockets, alice: Any, bob: Any, chat: Any, engine: Engine
) -> None:
    gid = await streaming(chat, alice, engine)
    for user in (alice, bob):
        socket = await sockets.greeted(user, chat)
        await socket.see(lambda view: view.texts.get(gid) == "secret")
        assert socket.view.rows[chat.id]["is_owner"] == (user == alice)


async def test_somebody_else_sees_what_they_see_of_an_absent_one(
    sockets: Sockets, alice: Any, carol: Any, chat: Any, engine: Engine
) -> None:
    gid = await streaming(chat, alice, engine)
    socket = await sockets.greeted(carol)
    assert socket.view.rows == {}
    answers = []
    for chat_id in (chat.id, "conv-absent"):
        await socket.send("open", conversation_id=chat_id, cursors={gid: "1:0"})
        frame = await socket.until(lambda frame: frame["type"] == "closed")
        answers.append({**frame, "n": 0, "conversation_id": ""})
        args = {"conversation_id": chat_id, "title": "x"}
        reply = await socket.act("conversation.rename", **args)
        answers.append({**reply, "n": 0, "ref": ""})
    assert answers[:2] == answers[2:]
    assert answers[0]["reason"] == "gone"
    assert answers[1]["error"]["code"] == "not_found"
    assert "secret" not in str(socket.frames)


async def test_read_only_sharing_refuses_acts(
    sockets: Sockets, bob: Any, alice: Any, chat: Any, engine: Engine
) -> None:
    gid = await streaming(chat, alice, engine)
    socket = await sockets.greeted(bob, chat)
    (turn,) = socket.view.chats[chat.id]["turns"].values()
    reply = await socket.act("turn.stop", turn_id=turn["id"])
    assert reply["error"]["code"] == "forbidden"
    assert await sync_to_async(engine.cancelled)() == {}
    assert gid in engine.running


async def test_nobody_signed_in(sockets: Sockets) -> None:
    socket = await sockets.connect()
    assert await socket.closed() == 4401
    socket = await sockets.connect(session="a" * 32)
    assert await socket.closed() == 4401


async def test_keys_open_no_socket(sockets: Sockets, alice: Any, chat: Any) -> None:
    key = await sync_to_async(make_key)(alice)
    for state in ("valid", "revoked"):
        for headers in ({"authorization": f"Bearer {key}"}, {"x-api-key": key}):
            socket = await sockets.connect(**headers)
            assert await socket.closed() == 4401, state
        row = await sync_to_async(lambda: alice.api_keys.get())()
        await sync_to_async(api_key_revoke)(key=row, actor=alice)


def log_out(user: Any, session: str) -> None:
    Session.objects.filter(session_key=session).delete()


def expire(user: Any, session: str) -> None:
    Session.objects.filter(session_key=session).update(expire_date="2020-01-01T00:00:00Z")


def deactivate(user: Any, session: str) -> None:
    type(user).objects.filter(pk=user.pk).update(is_active=False)


def change_password(user: Any, session: str) -> None:
    user.set_password("another one")
    user.save()


def remove_user(user: Any, session: str) -> None:
    user.delete()


@pytest.mark.parametrize("how", [log_out, expire, deactivate, change_password])
async def test_a_sign_in_that_ends_closes_the_socket_in_the_middle(
    sockets: Sockets,
    alice: Any,
    bob: Any,
    chat: Any,
    engine: Engine,
    how: Callable[[Any, str], None],
) -> None:
    gid = await streaming(chat, alice, engine)
    session = await sync_to_async(session_of)(bob)
    socket = await sockets.greeted(None, chat, session=session)
    other = await sockets.greeted(alice, chat)
    await socket.see(lambda view: view.texts.get(gid) == "secret")
    began_ts = time.monotonic()
    await sync_to_async(how)(bob, session)
    assert await socket.closed() == 4401
    assert time.monotonic() - began_ts < SOON_S
    await sync_to_async(engine.write)(gid, Delta(" later", (2,)))
    await other.see(lambda view: view.texts.get(gid) == "secret later")
    assert "later" not in str(socket.frames)
    again = await sockets.connect(session=session)
    assert await again.closed() == 4401


async def test_a_removed_user_is_out(
    sockets: Sockets, alice: Any, bob: Any, chat: Any, engine: Engine
) -> None:
    socket = await sockets.greeted(bob, chat)
    await sync_to_async(remove_user)(bob, "")
    assert await socket.closed() == 4401


async def test_a_revoked_share_closes_the_conversation_only(
    sockets: Sockets, alice: Any, bob: Any, chat: Any, engine: Engine
) -> None:
    gid = await streaming(chat, alice, engine)
    socket = await sockets.greeted(bob, chat)
    await socket.see(lambda view: view.texts.get(gid) == "secret")
    began_ts = time.monotonic()
    await sync_to_async(services.share_revoke)(user=alice, conversation_id=chat.id, to=bob)
    frame = await socket.until(lambda frame: frame["type"] == "closed")
    assert time.monotonic() - began_ts < SOON_S
    assert (frame["conversation_id"], frame["reason"]) == (chat.id, "gone")
    await socket.see(lambda view: chat.id not in view.rows)
    await sync_to_async(engine.write)(gid, Delta(" later", (2,)))
    await socket.send("ping")
    await socket.until(lambda frame: frame["type"] == "pong")
    assert "later" not in str(socket.frames)
    assert not await Share.objects.filter(user=bob).aexists()


async def test_a_deleted_conversation_is_gone_for_all(
    sockets: Sockets, alice: Any, bob: Any, chat: Any
) -> None:
    socket = await sockets.greeted(bob, chat)
    await sync_to_async(services.conversation_delete)(user=alice, conversation_id=chat.id)
    frame = await socket.until(lambda frame: frame["type"] == "closed")
    assert frame["reason"] == "gone"
    await socket.see(lambda view: chat.id not in view.rows)
    await sync_to_async(services.conversation_restore)(user=alice, conversation_id=chat.id)
    await socket.see(lambda view: chat.id in view.rows)


async def test_a_session_that_only_the_cache_remembers_opens_nothing(
    sockets: Sockets, alice: Any
) -> None:
    session = await sync_to_async(session_of)(alice)
    await Session.objects.filter(session_key=session).adelete()  # its copy in the cache stays
    assert await (await sockets.connect(session=session)).closed() == 4401


async def test_one_look_asks_the_same_few_queries_for_many(
    sockets: Sockets, alice: Any, bob: Any, chat: Conversation, django_assert_num_queries: Any
) -> None:
    from conversations.edge.live.sign_in import facts_read

    keys = [await sync_to_async(session_of)(user) for user in (alice, bob) for _ in range(5)]

    def look() -> None:
        with django_assert_num_queries(3):
            facts = facts_read(keys, {alice.pk, bob.pk})
        assert facts.session_keys == set(keys)
        assert conf.SESSION_COOKIE_NAME not in str(facts)

    await sync_to_async(look)()
