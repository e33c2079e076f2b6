"""Clients of the live connection: a socket on the application, and the fold of its frames."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.test import Client

WAIT_S = 10.0
ORIGIN = "http://testserver"
Frame = dict[str, Any]


def session_of(user: Any) -> str:
    """A new session's key."""
    client = Client()
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@dataclass
class View:
    """What a browser makes of the frames it gets: rows by id, texts by generation."""

    rows: dict[str, Frame] = field(default_factory=dict)
    feed: int | None = None
    chats: dict[str, Frame] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    cursors: dict[str, str] = field(default_factory=dict)
    ends: dict[str, Frame] = field(default_factory=dict)
    places: dict[str, Frame] = field(default_factory=dict)
    models: dict[str, Frame] = field(default_factory=dict)

    def take(self, frame: Frame) -> None:
        """Apply one frame."""
        method = getattr(self, "_" + frame["type"], None)
        if method is not None:
            method(frame)

    def _feed(self, frame: Frame) -> None:
        if frame["reset"]:
            self.rows = {}
        self.rows |= {row["id"]: row for row in frame["conversations"]}
        for gone in frame["gone"]:
            self.rows.pop(gone, None)
        self.feed = frame["revision"]

    def _conversation(self, frame: Frame) -> None:
        chat_id = frame["conversation"]["id"]
        if frame["reset"]:
            self.chats[chat_id] = {"messages": {}, "turns": {}}
        chat = self.chats[chat_id]
        chat["conversation"], chat["revision"] = frame["conversation"], frame["revision"]
        chat["has_more"] = frame["has_more"]
        for kind in ("messages", "turns"):
            for row in frame[kind]:
                known = chat[kind].get(row["id"])
                if row["is_deleted"]:
                    chat[kind].pop(row["id"], None)
                elif known is None or known["revision"] <= row["revision"]:
                    chat[kind][row["id"]] = row

    def _stream(self, frame: Frame) -> None:
        key = frame["generation_id"]
        before = "" if frame["reset"] else self.texts.get(key, "")
        self.texts[key] = before + "".join(text for _, text in frame["deltas"])
        self.cursors[key] = frame["cursor"]
        if frame["end"] is not None:
            self.ends[key] = frame["end"]
        if frame["place"] is not None:
            self.places[key] = frame["place"]

    def _models(self, frame: Frame) -> None:
        known = self.models | {model["name"]: model for model in frame["models"]}
        self.models = {name: known[name] for name in frame["names"]}

    def _closed(self, frame: Frame) -> None:
        self.chats.pop(frame["conversation_id"], None)


class Socket:
    """One connection. `view` lives longer when it is handed to the next one."""

    def __init__(self, communicator: WebsocketCommunicator, view: View) -> None:
        self.communicator = communicator
        self.view = view
        self.frames: list[Frame] = []
        self.code: int | None = None
        self.acks = True

    async def send(self, type_: str, **fields: Any) -> None:
        """A frame of the client's."""
        await self.communicator.send_to(text_data=json.dumps({"type": type_, **fields}))

    async def hello(self, feed: int | None = None) -> Frame:
        """The first frame, and its answer."""
        await self.send("hello", feed=feed)
        return await self.until(lambda frame: frame["type"] == "feed")

    async def open(self, chat_id: str, *, anew: bool = False) -> Frame:
        """Follow a conversation from what the view has; the last frame of the answer."""
        known = {} if anew else self.view.chats.get(chat_id, {})
        cursors = {} if anew else self.view.cursors
        await self.send(
            "open", conversation_id=chat_id, revision=known.get("revision"), cursors=cursors
        )
        return await self.until(
            lambda frame: (
                frame["type"] == "closed"
                or (frame["type"] == "conversation" and not frame["has_more"])
            )
        )

    async def act(self, name: str, **args: Any) -> Frame:
        """Do something; the reply."""
        ref = f"r{len(self.frames)}"
        await self.send("act", ref=ref, name=name, args=args)
        return await self.until(lambda frame: frame.get("ref") == ref)

    async def next(self, timeout_s: float = WAIT_S) -> Frame:
        """The next frame, applied to the view.

        Raises:
            TimeoutError: none came.
            ConnectionError: the server closed.
        """
        async with asyncio.timeout(timeout_s):
            message = await self.communicator.output_queue.get()
        if message["type"] == "websocket.close":
            self.code = message.get("code")
            raise ConnectionError(f"closed with {self.code}")
        assert message["type"] == "websocket.send"
        frame: Frame = json.loads(message["text"])
        self.frames.append(frame)
        self.view.take(frame)
        assert frame["n"] == len(self.frames)
        if self.acks:
            await self.send("ack", n=frame["n"])
        return frame

    async def until(self, wanted: Callable[[Frame], Any], timeout_s: float = WAIT_S) -> Frame:
        """The next frame that is `wanted`."""
        async with asyncio.timeout(timeout_s):
            while True:
                frame = await self.next()
                if wanted(frame):
                    return frame

    async def see(self, condition: Callable[[View], Any], timeout_s: float = WAIT_S) -> None:
        """Until the view is as wanted."""
        async with asyncio.timeout(timeout_s):
            while not condition(self.view):
                await self.next()

    async def closed(self, timeout_s: float = WAIT_S) -> int | None:
        """The code the server closes with."""
        async with asyncio.timeout(timeout_s):
            while self.code is None:
                try:
                    await self.next()
                except ConnectionError:
                    break
        return self.code

    async def drop(self) -> None:
        """The client goes without a word."""
        await self.communicator.send_input({"type": "websocket.disconnect", "code": 1006})
        await self.communicator.wait(WAIT_S)


class Sockets:
    """Makes clients of the application."""

    def __init__(self) -> None:
        self._made: list[Socket] = []

    async def connect(
        self, user: Any = None, *, session: str = "", view: View | None = None, **headers: str
    ) -> Socket:
        """An accepted connection (of a new session of `user`), or one that was refused: `code`."""
        if user is not None:
            session = await sync_to_async(session_of)(user)
        sent = {"host": "testserver", "origin": ORIGIN, **headers}
        if session:
            sent["cookie"] = f"{settings.SESSION_COOKIE_NAME}={session}"
        raw = [(name.encode(), value.encode()) for name, value in sent.items() if value]
        from llamaweb.asgi import application

        communicator = WebsocketCommunicator(application, "/api/app/socket", headers=raw)
        socket = Socket(communicator, view or View())
        self._made.append(socket)
        await communicator.send_input({"type": "websocket.connect"})
        async with asyncio.timeout(WAIT_S):
            answer = await communicator.output_queue.get()
        if answer["type"] == "websocket.close":
            socket.code = answer["code"]
        return socket

    async def greeted(self, user: Any, *chats: Any, **options: Any) -> Socket:
        """A connection that said hello and follows `chats`."""
        socket = await self.connect(user, **options)
        await socket.hello()
        for chat in chats:
            await socket.open(chat.id)
        return socket

    async def close(self) -> None:
        """End all that are left."""
        for socket in self._made:
            if not socket.communicator.future.done():
                await socket.drop()
