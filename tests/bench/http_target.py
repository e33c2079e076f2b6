"""POST /v1/chat/completions as a stream, over plain sockets: about 15 us of client an event."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from tests.bench.figures import Answer, BenchError
from tests.bench.target import OnText, ignore
from tests.bench.workloads import Chat

PATH = "/v1/chat/completions"
READ_BYTES = 65536
SHOWN_BYTES = 300  # of an unexpected answer


class HttpTarget:
    """A server and a key for it. `num_deltas` came so far, in all answers."""

    def __init__(
        self, base_url: str, api_key: str = "", model: str = "default", *, name: str = "product"
    ) -> None:
        self.name = name
        parts = urlsplit(base_url)
        self._host, self._port = parts.hostname, parts.port
        self._model = model
        self.num_deltas = 0
        self._head = (
            f"POST {PATH} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {api_key}\r\n"
            "Content-Type: application/json\r\nConnection: close\r\nContent-Length: "
        )

    async def ask(self, messages: Chat, max_tokens: int, on_text: OnText = ignore) -> Answer:
        """See `Target.ask`."""
        body = json.dumps(
            {
                "model": self._model,
                "messages": [{"role": role, "content": text} for role, text in messages],
                "max_tokens": max_tokens,
                "temperature": 0,
                "ignore_eos": True,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode()
        started_ts = time.perf_counter()
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(f"{self._head}{len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            return await self._read(reader, _Events(started_ts, on_text))
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
    """Server-sent events as they come, and when each with text came."""

    def __init__(self, started_ts: float, on_text: OnText) -> None:
        self._started_ts = started_ts
        self._on_text = on_text
        self._tail = b""
        self._times: list[float] = []
        self._texts: list[str] = []
        self._usage: dict[str, Any] = {}

    def push(self, data: bytes) -> int:
        """Take bytes in; returns how many deltas with text were completed."""
        num_before = len(self._times)
        now = time.perf_counter() - self._started_ts
        *lines, self._tail = (self._tail + data).split(b"\n")
        for line in lines:
            text = line.strip()
            if text.startswith(b"data:") and not text.endswith(b"[DONE]"):
                self._take(json.loads(text[5:]), now)
        return len(self._times) - num_before

    def _take(self, event: dict[str, Any], now: float) -> None:
        if "error" in event:
            raise BenchError(f"the stream ended in an error: {event['error']}")
        self._usage = event.get("usage") or self._usage
        for choice in event.get("choices", ()):
            text = choice["delta"].get("content") or choice["delta"].get("reasoning_content")
            if text:
                self._times.append(now)
                self._texts.append(text)
                self._on_text()

    def answer(self) -> Answer:
        return Answer(
            tuple(self._times),
            int(self._usage.get("completion_tokens", 0)),
            int(self._usage.get("prompt_tokens", 0)),
            "".join(self._texts),
            self._started_ts,
        )
