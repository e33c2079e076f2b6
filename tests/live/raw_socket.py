"""A WebSocket client for tests against a whole server: blocking, text frames, nothing else."""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from tests.live.clients import Frame, View

WAIT_S = 30.0
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class ClosedError(Exception):
    """The server closed; `code` is None when it just vanished."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"closed with {code}")
        self.code = code


class RawSocket:
    """One connection to `base_url`; acks what it gets and applies it to `view`."""

    def __init__(self, base_url: str, cookie: str, view: View | None = None) -> None:
        parts = urlsplit(base_url)
        self.view = view or View()
        self.frames: list[Frame] = []
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=WAIT_S)
        self._buffer = b""
        key = base64.b64encode(os.urandom(16)).decode()
        head = (
            f"GET /api/app/socket HTTP/1.1\r\nHost: {parts.netloc}\r\nOrigin: {base_url}\r\n"
            f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\nCookie: {cookie}\r\n\r\n"
        )
        self._socket.sendall(head.encode())
        answer = self._until(b"\r\n\r\n", time.monotonic() + WAIT_S)
        self.status = int(answer.split()[1])

    @property
    def port(self) -> int:
        """Our end's port, by which the process at the other end is found."""
        return int(self._socket.getsockname()[1])

    def send(self, type_: str, **fields: Any) -> None:
        """A frame of the client's."""
        self._send(TEXT, json.dumps({"type": type_, **fields}).encode())

    def begin(self, *chat_ids: str) -> None:
        """Say hello and follow, from what the view has."""
        self.send("hello", feed=self.view.feed)
        for chat_id in chat_ids:
            revision = self.view.chats.get(chat_id, {}).get("revision")
            self.send("open", conversation_id=chat_id, revision=revision, cursors=self.view.cursors)

    def next(self, timeout_s: float = WAIT_S) -> Frame:
        """The next frame.

        Raises:
            ClosedError: there is none any more.
            TimeoutError: none came.
        """
        until_ts = time.monotonic() + timeout_s
        while True:
            kind, data = self._receive(until_ts)
            if kind == CLOSE:
                self._send(CLOSE, data[:2])
                raise ClosedError(struct.unpack("!H", data[:2])[0] if data else None)
            if kind == PING:
                self._send(PONG, data)
            elif kind == TEXT:
                frame: Frame = json.loads(data)
                self.frames.append(frame)
                self.view.take(frame)
                assert frame["n"] == len(self.frames)
                self.send("ack", n=frame["n"])
                return frame

    def see(self, condition: Callable[[View], Any], timeout_s: float = WAIT_S) -> None:
        """Until the view is as wanted."""
        until_ts = time.monotonic() + timeout_s
        while not condition(self.view):
            self.next(max(0.0, until_ts - time.monotonic()))

    def act(self, name: str, **args: Any) -> Frame:
        """Do something; the reply."""
        ref = secrets.token_hex(4)
        self.send("act", ref=ref, name=name, args=args)
        while True:
            frame = self.next()
            if frame.get("ref") == ref:
                return frame

    def closed(self) -> int | None:
        """The code the server closes with."""
        try:
            while True:
                self.next()
        except ClosedError as error:
            self.drop()
            return error.code

    def drop(self) -> None:
        """Vanish."""
        self._socket.close()

    # --- the wire

    def _send(self, kind: int, data: bytes) -> None:
        mask = os.urandom(4)
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", 0x80 | kind, 0x80 | size)
        elif size < 65536:
            head = struct.pack("!BBH", 0x80 | kind, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | kind, 0x80 | 127, size)
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
        try:
            self._socket.sendall(head + mask + masked)
        except OSError:
            return  # what it said last is still to be read

    def _receive(self, until_ts: float) -> tuple[int, bytes]:
        first, second = self._take(2, until_ts)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", self._take(2, until_ts))
        elif size == 127:
            (size,) = struct.unpack("!Q", self._take(8, until_ts))
        assert first & 0x80, "the server sends whole messages"
        return first & 0x0F, self._take(size, until_ts)

    def _take(self, size: int, until_ts: float) -> bytes:
        while len(self._buffer) < size:
            self._more(until_ts)
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def _until(self, mark: bytes, until_ts: float) -> bytes:
        while mark not in self._buffer:
            self._more(until_ts)
        data, _, self._buffer = self._buffer.partition(mark)
        return data

    def _more(self, until_ts: float) -> None:
        self._socket.settimeout(max(0.001, until_ts - time.monotonic()))
        try:
            data = self._socket.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            raise ClosedError(None)
        self._buffer += data
