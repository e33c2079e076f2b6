"""A client of the HTTP routes, in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from django.test import AsyncClient

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HELLO = [{"role": "user", "content": "Hello"}]


@dataclass
class Streamed:
    """A stream as it came: `data` are the parsed events without [DONE]."""

    raw: bytes
    data: list[dict[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    is_done: bool = False

    @property
    def text(self) -> str:
        """The content of all chunks of choice 0."""
        return "".join(
            (c["delta"].get("content") or "") if "delta" in c else c["text"]
            for chunk in self.data
            for c in chunk.get("choices", [])
            if c["index"] == 0
        )


def parse_sse(raw: bytes) -> Streamed:
    """Read server-sent events strictly: id, one data line, blank line; or a comment."""
    out = Streamed(raw)
    assert raw == b"" or raw.endswith(b"\n\n")
    for block in raw.decode().split("\n\n")[:-1]:
        if block.startswith(":"):
            continue
        lines = block.split("\n")
        if lines[0].startswith("id: "):
            out.ids.append(lines.pop(0)[4:])
        assert len(lines) == 1
        assert lines[0].startswith("data: ")
        if lines[0] == "data: [DONE]":
            out.is_done = True
            continue
        assert not out.is_done
        out.data.append(json.loads(lines[0][6:]))
    return out


class Wire:
    """`post` answers (status, body), `stream` a 200 stream; both send `body` over `HELLO`."""

    def __init__(self) -> None:
        self.client = AsyncClient(raise_request_exception=False)

    async def raw(self, path: str, data: bytes) -> Any:
        """The response itself."""
        return await self.client.post(path, data=data, content_type="application/json")

    async def post(self, path: str, **body: Any) -> tuple[int, Any]:
        """Status and parsed body."""
        response = await self.raw(path, json.dumps(_with_prompt(path, body)).encode())
        return response.status_code, json.loads(response.content)

    async def stream(self, path: str, **body: Any) -> Streamed:
        """The whole stream."""
        fields = _with_prompt(path, {**body, "stream": True})
        response = await self.raw(path, json.dumps(fields).encode())
        assert response.status_code == 200
        assert response["Content-Type"].startswith("text/event-stream")
        return parse_sse(b"".join([part async for part in response.streaming_content]))


def _with_prompt(path: str, body: dict[str, Any]) -> dict[str, Any]:
    return {**({"messages": HELLO} if path == CHAT else {"prompt": "Hello"}), **body}
