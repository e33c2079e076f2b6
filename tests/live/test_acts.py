"""Acts over the socket: answered each, beside everything else."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError

from conversations.edge.live import act_runner
from conversations.edge.live.act_runner import LiveActs
from conversations.edge.live.frames import Act, ReplyFrame
from conversations.edge.live.threads import LiveThreads
from conversations.models import Conversation, Turn
from inference.protocol.events import Delta
from llamaweb.lib.errors import DeadlineError
from tests.conversations.driving import Engine, say
from tests.live.clients import WAIT_S, Sockets

pytestmark = pytest.mark.django_db(transaction=True)
PARTS = [{"type": "text", "text": "hello there"}]


async def test_a_first_message_makes_the_conversation_once(
    sockets: Sockets, alice: Any, engine: Engine
) -> None:
    socket = await sockets.greeted(alice)
    first = await socket.act("turn.start", parts=PARTS, client_key="k1")
    await socket.drop()  # the reply was lost, the client can't know
    again = await sockets.greeted(alice)
    second = await again.act("turn.start", parts=PARTS, client_key="k1")
    assert first["result"]["turn_id"] == second["result"]["turn_id"]
    assert await Conversation.objects.acount() == await Turn.objects.acount() == 1
    chat_id = first["result"]["conversation_id"]
    await again.see(lambda view: chat_id in view.rows)
    assert again.view.rows[chat_id]["title"] == "hello there"


@pytest.mark.parametrize(
    ("name", "args", "code", "param"),
    [
        ("nothing.such", {}, "invalid", "name"),
        ("conversation.rename", {"conversation_id": "c"}, "invalid", "title"),
        ("conversation.rename", {"conversation_id": "c", "title": "x"}, "not_found", None),
        ("turn.start", {"parts": []}, "invalid", "parts"),
        ("turn.start", {"parts": PARTS, "model_name": "nobody"}, "not_found", None),
        ("turn.stop", {"turn_id": "t", "more": 1}, "invalid", "more"),
    ],
)
async def test_refusals_say_what_is_wrong(
    sockets: Sockets,
    alice: Any,
    name: str,
    args: dict[str, Any],
    code: str,
    param: str | None,
) -> None:
    socket = await sockets.greeted(alice)
    reply = await socket.act(name, **args)
    assert reply["result"] is None
    assert (reply["error"]["code"], reply["error"]["param"]) == (code, param)


async def test_a_change_shows_at_once_in_every_tab(
    sockets: Sockets, alice: Any, bob: Any, chat: Any
) -> None:
    tabs = [await sockets.greeted(user, chat) for user in (alice, alice, bob)]
    await tabs[0].act("conversation.rename", conversation_id=chat.id, title="Renamed")
    for tab in tabs:
        await tab.see(lambda view: view.rows[chat.id]["title"] == "Renamed")
        await tab.see(lambda view: view.chats[chat.id]["conversation"]["title"] == "Renamed")


async def test_a_slow_act_holds_up_nothing_but_acts(
    sockets: Sockets,
    alice: Any,
    chat: Any,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, began = threading.Event(), threading.Event()
    real = act_runner.act_run
    ran: list[str] = []

    def slow(user: Any, name: str, args: Any) -> Any:
        ran.append(args["title"])
        began.set()
        if args["title"] == "slow":
            gate.wait(10)
        return real(user, name, args)

    monkeypatch.setattr(act_runner, "act_run", slow)
    turn = await sync_to_async(say)(alice, chat)
    await sync_to_async(engine.claim)()
    socket = await sockets.greeted(alice, chat)
    for title in ("slow", "quick"):
        args = {"conversation_id": chat.id, "title": title}
        await socket.send("act", ref=title, name="conversation.rename", args=args)
    await socket.send("ping")
    await socket.until(lambda frame: frame["type"] == "pong")
    await sync_to_async(engine.write)(turn.generation_id, Delta("goes on", (1,)))
    await socket.see(lambda view: view.texts.get(turn.generation_id) == "goes on")
    assert await sync_to_async(began.wait)(10)
    assert ran == ["slow"]
    gate.set()
    replies = [await socket.until(lambda frame: frame["type"] == "reply") for _ in range(2)]
    assert [reply["ref"] for reply in replies] == ["slow", "quick"]
    await socket.see(lambda view: view.rows[chat.id]["title"] == "quick")


async def test_an_act_has_its_deadline(
    sockets: Sockets, alice: Any, chat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    monkeypatch.setattr(act_runner, "ACT_S", 0.1)
    monkeypatch.setattr(act_runner, "act_run", lambda *_args: gate.wait(10))
    socket = await sockets.greeted(alice)
    reply = await socket.act("conversation.rename", conversation_id=chat.id, title="x")
    gate.set()
    assert (reply["error"]["code"], reply["error"]["retryable"]) == ("deadline", True)


async def test_what_nobody_expected_is_told_without_its_text(
    sockets: Sockets, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(act_runner, "act_run", fail)
    socket = await sockets.greeted(alice)
    reply = await socket.act("conversation.create")
    assert reply["error"]["code"] == "failed"
    assert "secret" not in str(reply)


async def test_a_database_that_is_away_is_worth_another_try(
    sockets: Sockets, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: Any) -> None:
        raise OperationalError("secret detail")

    monkeypatch.setattr(act_runner, "act_run", fail)
    socket = await sockets.greeted(alice)
    reply = await socket.act("conversation.create")
    assert (reply["error"]["code"], reply["error"]["retryable"]) == ("unavailable", True)
    assert "secret" not in str(reply)


async def test_a_reply_that_nobody_takes_in_ends_the_acts_quietly(alice: Any) -> None:
    done: list[str] = []

    async def reply(_frame: ReplyFrame) -> None:
        raise DeadlineError("nothing was acknowledged")

    threads = LiveThreads()
    acts = LiveActs(alice, threads, reply=reply, done=lambda: done.append("done"))
    for ref in ("1", "2"):
        await acts.put(Act(type="act", ref=ref, name="nothing", args={}))
    task = acts._task
    assert task is not None
    async with asyncio.timeout(WAIT_S):
        await task  # with an exception nobody would ever ask for, the log had a traceback
    assert done == ["done"]
    threads.close()
