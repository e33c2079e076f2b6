"""A client of the API's streams on bare connections, which tells who serves it."""

from __future__ import annotations

import contextlib
import http.client
import json
from typing import Any
from urllib.parse import urlencode

import psutil

from tests.stack import Stack

TIMEOUT_S = 60.0


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

    def server_pid(self) -> int:
        """Of the web process at the other end."""
        for process in self._stack.processes("web"):
            for each in process.net_connections("tcp"):
                if each.raddr and each.raddr.port == self._port:
                    return int(process.pid)
        raise psutil.NoSuchProcess(0)

    def close(self) -> None:
        """Hang up."""
        self._response.close()
        self._connection.close()


class StreamClient:
    """Starts and finds streams with one key."""

    def __init__(self, stack: Stack, key: str) -> None:
        self._stack = stack
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def begin(self, name: str, text: str) -> ApiStream:
        """Let the mock engine say `text`."""
        body = {"stream": True, "messages": [{"role": "user", "content": text}]}
        headers = {"X-Conversation-Id": name}
        return self._stream("POST", "/v1/chat/completions", json.dumps(body), headers)

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


def last_id(events: bytes) -> str:
    """Of the last event."""
    ids = [line[4:] for line in events.decode().split("\n") if line.startswith("id: ")]
    return ids[-1]


def text_of(events: bytes) -> str:
    """The content of all chunks."""
    lines = [line[6:] for line in events.decode().split("\n") if line.startswith("data: {")]
    choices = [choice for line in lines for choice in json.loads(line)["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)
