"""One streamed answer of an API family, over plain sockets: about 15 us of client an event."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.bench.figures import Answer, BenchError
from tests.bench.forms import CHAT, Form
from tests.bench.target import OnText, ignore
from tests.bench.workloads import Chat

READ_BYTES = 65536
SHOWN_BYTES = 300  # of an unexpected answer
DATA = b"data:"
DONE = b"[DONE]"


class HttpTarget:
    """A server, a key for it, and the family that it is asked in; one that takes texts needs
    `render`, which makes one of a chat. `num_deltas` came so far, in all answers."""

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        model: str = "default",
        *,
        name: str = "product",
        form: Form = CHAT,
        render: Callable[[Chat], str] | None = None,
    ) -> None:
        self.name = name
        parts = urlsplit(base_url)
        self._host, self._port = parts.hostname, parts.port
        self._model = model
        self._form = form
        self._render = render
        self.num_deltas = 0
        self._head = (
            f"POST {form.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Authorization: Bearer {api_key}\r\n"
            "Content-Type: application/json\r\nConnection: close\r\nContent-Length: "
        )

    async def ask(self, messages: Chat, max_tokens: int, on_text: OnText = ignore) -> Answer:
        """See `Target.ask`."""
        text = self._render(messages) if self._render and self._form.is_raw else ""
        fields = self._form.body(messages, text, max_tokens)
        body = json.dumps({"model": self._model, **fields}).encode()
        started_ts = time.perf_counter()
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(f"{self._head}{len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            return await self._read(reader, _Events(self._form, started_ts, on_text))
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, events: _Events) -> Answer:
        head = await reader.readuntil(b"\r\n\r\n")
        status = head.split(b"\r\n", 1)[0]
        if b" 200 " not in status:
            raise BenchError(f"{status!r} {await reader.read(SHOWN_BYTES)!r}")
        async for data in _body(reader, chunked=b"chunked" in head.lower()):
            self.num_deltas += events.push(data)
        return events.answer()


async def _body(reader: asyncio.StreamReader, *, chunked: bool) -> AsyncIterator[bytes]:
    while True:
        if not chunked:
            data = await reader.read(READ_BYTES)
        else:
            size = int((await reader.readline()).split(b";")[0] or b"0", 16)
            data = (await reader.readexactly(size + 2))[:-2] if size else b""
        if not data:
            return
        yield data


class _Events:
    """Events as they come, and when each with text came."""

    def __init__(self, form: Form, started_ts: float, on_text: OnText) -> None:
        self._form = form
        self._started_ts = started_ts
        self._on_text = on_text
        self._tail = b""
        self._times: list[float] = []
        self._texts: list[str] = []
        self._num_tokens = self._prompt_tokens = 0

    def push(self, data: bytes) -> int:
        """Take bytes in; returns how many deltas with text were completed."""
        num_before = len(self._times)
        now = time.perf_counter() - self._started_ts
        *lines, self._tail = (self._tail + data).split(b"\n")
        for line in lines:
            text = self._event_of(line.strip())
            if text:
                self._take(json.loads(text), now)
        return len(self._times) - num_before

    def _event_of(self, line: bytes) -> bytes:
        """The JSON of a line, or nothing."""
        if self._form.has_lines:
            return line
        return line[len(DATA) :] if line.startswith(DATA) and not line.endswith(DONE) else b""

    def _take(self, event: Mapping[str, Any], now: float) -> None:
        error = event.get("error") or (event.get("response") or {}).get("error")
        if error:
            raise BenchError(f"the stream ended in an error: {error}")
        said = self._form.read(event)
        self._num_tokens = said.num_tokens or self._num_tokens
        self._prompt_tokens = said.prompt_tokens or self._prompt_tokens
        if said.text:
            self._times.append(now)
            self._texts.append(said.text)
            self._on_text()

    def answer(self) -> Answer:
        return Answer(
            tuple(self._times),
            self._num_tokens,
            self._prompt_tokens,
            "".join(self._texts),
            self._started_ts,
        )
