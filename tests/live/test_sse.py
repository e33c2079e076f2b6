"""The same frames as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.conf import settings as conf
from django.contrib.sessions.models import Session
from django.test import AsyncClient

from conversations import services
from conversations.edge.live import watch
from inference.protocol.events import Delta
from tests.conversations.driving import Engine, say
from tests.factories import make_key
from tests.live.clients import Frame, Sockets, View, session_of
from tests.until import until

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 10.0


class Stream:
    """An open response and the fold of its frames."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self.view = View()
        self.frames: list[Frame] = []
        self.pings = 0
        self.is_closed = False
        self._chunks: AsyncIterator[bytes] = response.streaming_content
        self._buffer = b""

    async def next(self) -> Frame | None:
        """The next frame that is about conversations; None at the end."""
        async with asyncio.timeout(WAIT_S):
            while True:
                event, end, rest = self._buffer.partition(b"\n\n")
                if end:
                    self._buffer = rest
                    if event == b":":
                        self.pings += 1
                        continue
                    assert event.startswith(b"data: ")
                    assert b"\n" not in event
                    frame: Frame = json.loads(event.removeprefix(b"data: "))
                    self.frames.append(frame)
                    self.view.take(frame)
                    assert frame["n"] == len(self.frames)
                    if frame["type"] != "models":  # told whenever engines are looked at
                        return frame
                    continue
                try:
                    self._buffer += await anext(self._chunks)
                except StopAsyncIteration:
                    return None

    async def see(self, condition: Any) -> None:
        while not condition(self.view):
            assert await self.next() is not None

    async def close(self) -> None:
        """As the server does when the client is gone."""
        if not self.is_closed:
            self.is_closed = True
            await sync_to_async(self.response.close)()


async def nobody() -> None:
    """Until no connection is left."""
    await until(lambda: not watch.watch_here().num_connections, WAIT_S)


class Streams:
    """Opens streams; closes what is left."""

    def __init__(self) -> None:
        self._made: list[Stream] = []

    async def get(self, session: str = "", query: str = "", **headers: str) -> Any:
        client = AsyncClient()
        if session:
            client.cookies[conf.SESSION_COOKIE_NAME] = session
        return await client.get(f"/api/app/live{query}", headers=headers)

    async def open(self, session: str, query: str = "") -> Stream:
        response = await self.get(session, query)
        assert response.status_code == 200
        assert response["Content-Type"] == "text/event-stream"
        stream = Stream(response)
        self._made.append(stream)
        return stream

    async def close(self) -> None:
        for stream in self._made:
            await stream.close()
        await nobody()


@pytest_asyncio.fixture
async def streams(sockets: Sockets) -> AsyncIterator[Streams]:
    made = Streams()
    yield made
    await made.close()


async def test_the_list_and_an_answer(
    streams: Streams, alice: Any, chat: Any, engine: Engine
) -> None:
    session = await sync_to_async(session_of)(alice)
    stream = await streams.open(session, f"?open={chat.id}@-")
    await stream.see(lambda view: chat.id in view.chats and chat.id in view.rows)
    turn = await sync_to_async(say)(alice, chat, "hi")
    gid = turn.generation_id
    await stream.see(lambda view: gid in view.places)
    await sync_to_async(engine.claim)()
    text = "data: x\n\nline\r\u2028\u2029\x85 😺 é"
    await sync_to_async(engine.write)(gid, *(Delta(letter, (1,)) for letter in text))
    await stream.see(lambda view: view.texts.get(gid) == text)
    revision = stream.view.chats[chat.id]["revision"]
    await stream.close()
    # Taken up again where it was cut: no frame repeats what is known.
    query = (
        f"?feed={stream.view.feed}&open={chat.id}@{revision}"
        f"&cursor={gid}@{stream.view.cursors[gid]}"
    )
    again = await streams.open(session, query)
    again.view = stream.view
    await sync_to_async(engine.end)(gid, text=" end")
    await again.see(lambda view: gid in view.ends)
    assert again.view.texts[gid] == text + " end"
    assert not any(frame.get("reset") for frame in again.frames)
    await sync_to_async(services.turn_advance)(gid)
    await again.see(lambda view: not view.rows[chat.id]["is_running"])


async def test_silence_is_broken_by_comments(streams: Streams, alice: Any, settings: Any) -> None:
    settings.SSE_PING_S = 0.05
    stream = await streams.open(await sync_to_async(session_of)(alice))
    await stream.next()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await stream.next()
    assert stream.pings > 2


async def test_a_session_that_ends_says_so_and_ends_the_stream(
    streams: Streams, alice: Any
) -> None:
    session = await sync_to_async(session_of)(alice)
    stream = await streams.open(session)
    await stream.next()
    await Session.objects.all().adelete()
    frame = await stream.next()
    assert frame is not None
    assert (frame["type"], frame["error"]["code"]) == ("error", "signed_out")
    assert await stream.next() is None
    assert (await streams.get(session)).status_code == 401


async def test_a_stream_ends_before_the_web_server_would_cut_it(
    streams: Streams, alice: Any, chat: Any, settings: Any
) -> None:
    settings.REQUEST_TIMEOUT_S = 1
    stream = await streams.open(await sync_to_async(session_of)(alice), f"?open={chat.id}@-")
    while (frame := await stream.next()) is not None:
        last = frame
    assert (last["type"], last["error"]["code"]) == ("error", "unavailable")
    assert last["error"]["retryable"]
    assert chat.id in stream.view.chats  # it lived till then


async def test_who_may_not(streams: Streams, alice: Any, carol: Any, chat: Any) -> None:
    key = await sync_to_async(make_key)(alice)
    for headers in ({}, {"authorization": f"Bearer {key}"}, {"x-api-key": key}):
        response = await streams.get(**headers)
        assert response.status_code == 401
        assert json.loads(response.content)["error"]["code"] == "signed_out"
    session = await sync_to_async(session_of)(alice)
    response = await streams.get(session, origin="http://testserver:9999")
    assert response.status_code == 403
    stream = await streams.open(await sync_to_async(session_of)(carol), f"?open={chat.id}@-")
    await stream.see(lambda view: stream.frames and stream.frames[-1]["type"] == "closed")
    assert stream.view.rows == {}
    assert stream.frames[-1]["reason"] == "gone"


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("?feed=x", "feed"),
        ("?feed=-1", "feed"),
        ("?feed=" + "9" * 40, "feed"),
        ("?open=conv-1", "open"),
        ("?open=conv-1@x", "open"),
        ("?open=../x@-", "conversation_id"),
        ("?cursor=gen", "cursor"),
        ("?cursor=gen@x", "gen"),
        ("?open=c@-" + "&open=c@-" * 16, "open"),
    ],
)
async def test_wrong_parameters_are_named(
    streams: Streams, alice: Any, query: str, param: str
) -> None:
    response = await streams.get(await sync_to_async(session_of)(alice), query)
    assert response.status_code == 400
    assert json.loads(response.content)["error"]["param"] == param


async def test_a_stream_counts_as_a_connection(
    streams: Streams, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "MAX_CONNECTIONS_PER_USER", 1)
    session = await sync_to_async(session_of)(alice)
    first = await streams.open(session)
    await first.next()
    second = await streams.open(session)
    frame = await second.next()
    assert frame is not None
    assert frame["error"]["code"] == "busy"
    assert await second.next() is None
    await first.close()
    await nobody()
    third = await streams.open(session)
    await third.see(lambda view: view.feed is not None)


async def test_a_stream_may_begin_while_the_last_connection_leaves(
    streams: Streams, sockets: Sockets, alice: Any, bob: Any
) -> None:
    socket = await sockets.greeted(alice)
    stream = await streams.open(await sync_to_async(session_of)(bob))
    assert await anext(stream._chunks) == b":\n\n"
    await socket.drop()  # with her the Watch ends that bob's stream would have met
    await stream.see(lambda view: view.feed is not None)


async def test_a_client_that_leaves_leaves_nothing_behind(
    streams: Streams, alice: Any, chat: Any
) -> None:
    stream = await streams.open(await sync_to_async(session_of)(alice), f"?open={chat.id}@-")
    await stream.see(lambda view: chat.id in view.chats)
    assert watch.watch_here().num_connections == 1
    await stream.close()
    await nobody()
    async with asyncio.timeout(WAIT_S):
        while any(  # noqa: ASYNC110
            task.get_name().startswith("live-") for task in asyncio.all_tasks()
        ):
            await asyncio.sleep(0.01)
