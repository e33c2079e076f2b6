"""A client of the API's streams on bare connections, which tells who serves it."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import psutil

from tests.stack import Stack

TIMEOUT_S = 60.0
MAX_CONNECTIONS = 200


class ApiStream:
    """One open stream. Events are all blocks but comments."""

    def __init__(self, stack: Stack, connection: http.client.HTTPConnection) -> None:
        self._stack = stack
        self._connection = connection
        self._port = connection.sock.getsockname()[1]
        self._response = connection.getresponse()
        assert self._response.status == 200, self._response.read()

    def read_events(self, most: int = 10**9) -> bytes:
        """The bytes of the next events; fewer if the stream or its server ends, then it is
        closed."""
        out, block, count = b"", b"", 0
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            while count < most and (line := self._response.readline()):
                block += line
                if line != b"\n":
                    continue
                if not block.startswith(b":"):
                    out, count = out + block, count + 1
                block = b""
        if count < most:
            self.close()
        return out

    def read(self) -> bytes:
        """All that is left, as it comes."""
        rest = self._response.read()
        self.close()
        return rest

    def server_pid(self) -> int:
        """Of the web process at the other end."""
        return pid_at(self._stack, self._port)

    def close(self) -> None:
        """Hang up."""
        self._response.close()
        self._connection.close()


class OtherProcess:
    """Answers of any web process but `pid`; a connection is kept as long as its server keeps it."""

    def __init__(self, stack: Stack, headers: Mapping[str, str], pid: int) -> None:
        self._stack = stack
        self._headers = headers
        self._pid = pid
        self._connection: http.client.HTTPConnection | None = None

    def get(self, path: str, **headers: str) -> bytes:
        """The body of a 200."""
        if self._connection is None or self._connection.sock is None:
            self._connection = self._connect()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("GET", path, headers={**self._headers, **named})
        response = self._connection.getresponse()
        body = response.read()
        assert response.status == 200, body
        return body

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        with contextlib.ExitStack() as held:  # so that the next one goes elsewhere at last
            for _ in range(MAX_CONNECTIONS):
                made = http.client.HTTPConnection("127.0.0.1", self._stack.port, timeout=TIMEOUT_S)
                made.connect()
                if pid_at(self._stack, made.sock.getsockname()[1]) != self._pid:
                    return made
                held.callback(made.close)
        raise AssertionError("the other process takes no connections")


def pid_at(stack: Stack, port: int) -> int:
    """The web process at the other end of a connection from our `port`."""
    deadline_ts = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_ts:  # it is the kernel's until it is accepted
        for process in stack.processes("web"):
            for each in process.net_connections("tcp"):
                if each.raddr and each.raddr.port == port:
                    return int(process.pid)
    raise psutil.NoSuchProcess(0)


class StreamClient:
    """Starts and finds streams with one key."""

    def __init__(self, stack: Stack, key: str) -> None:
        self._stack = stack
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def begin(self, name: str, text: str) -> ApiStream:
        """Let the mock engine say `text`."""
        body = {"stream": True, "messages": [{"role": "user", "content": text}]}
        return self.ask(name, "/v1/chat/completions", body)

    def ask(self, name: str, path: str, body: Mapping[str, Any]) -> ApiStream:
        """Begin a stream on any route; "": without a name."""
        headers = {"X-Conversation-Id": name} if name else {}
        return self._stream("POST", path, json.dumps(body), headers)

    def other_than(self, pid: int) -> OtherProcess:
        """The same client at another process."""
        return OtherProcess(self._stack, self._headers, pid)

    def take_up(self, *, name: str = "", last: str = "", offset: int = 0) -> ApiStream:
        """From a byte on, or behind an event."""
        query = urlencode({"conv_id": name, "from": offset})
        headers = {"Last-Event-ID": last} if last else {}
        return self._stream("GET", f"/v1/stream?{query}", None, headers)

    def lookup(self, name: str) -> list[dict[str, Any]]:
        """What is known of it."""
        body = json.dumps({"conversation_ids": [name]})
        status, answer = self._call("POST", "/v1/streams/lookup", body)
        assert status == 200
        found: list[dict[str, Any]] = json.loads(answer)
        return found

    def delete(self, name: str) -> None:
        """End it."""
        assert self._call("DELETE", f"/v1/stream?{urlencode({'conv_id': name})}")[0] == 204

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._stack.port, timeout=TIMEOUT_S)

    def _stream(
        self, method: str, path: str, body: str | None, headers: dict[str, str]
    ) -> ApiStream:
        connection = self._connect()
        connection.request(method, path, body, self._headers | headers)
        return ApiStream(self._stack, connection)

    def _call(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        with contextlib.closing(self._connect()) as connection:
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            return response.status, response.read()


def events_in(raw: bytes) -> bytes:
    """The bytes of the events, without what only breaks silence."""
    if raw.lstrip(b" ").startswith(b"{"):  # an object a line
        return b"".join(line.lstrip(b" ") + b"\n" for line in raw.split(b"\n")[:-1])
    blocks = raw.split(b"\n\n")[:-1]
    silences = (b":", b"event: ping\n")
    return b"".join(block + b"\n\n" for block in blocks if not block.startswith(silences))


def last_id(events: bytes) -> str:
    """Of the last event."""
    ids = [line[4:] for line in events.decode().split("\n") if line.startswith("id: ")]
    return ids[-1]


def text_of(events: bytes) -> str:
    """The content of all chunks."""
    lines = [line[6:] for line in events.decode().split("\n") if line.startswith("data: {")]
    choices = [choice for line in lines for choice in json.loads(line)["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)
