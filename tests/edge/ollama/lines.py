"""A client of the Ollama routes, in this process, as strict with lines as the official one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.test import AsyncClient

CHAT = "/api/chat"
GENERATE = "/api/generate"
HELLO = [{"role": "user", "content": "Hello"}]
PATHS = [CHAT, GENERATE]


class Ollama:
    """`post` answers (status, body), `stream` the lines of a 200; both send a prompt."""

    def __init__(self) -> None:
        self.client = AsyncClient(raise_request_exception=False)

    async def raw(self, path: str, data: bytes) -> Any:
        """The response itself."""
        return await self.client.post(path, data=data, content_type="application/json")

    async def post(self, path: str, **body: Any) -> tuple[int, Any]:
        """Status and parsed body of a request that isn't streamed."""
        fields = {"stream": False, **with_prompt(path, body)}
        response = await self.raw(path, json.dumps(fields).encode())
        return response.status_code, json.loads(response.content)

    async def stream(self, path: str, **body: Any) -> list[dict[str, Any]]:
        """All lines."""
        response = await self.raw(path, json.dumps(with_prompt(path, body)).encode())
        assert response.status_code == 200, response.content
        assert response["Content-Type"] == "application/x-ndjson"
        data = b"".join([part async for part in response.streaming_content])
        return lines_of(data)


def lines_of(data: bytes) -> list[dict[str, Any]]:
    """Every line is one object, also the first."""
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.decode().split("\n")[:-1]]


def joined(path: str, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a client makes of a stream."""
    out: dict[str, Any] = {"content": "", "thinking": "", "tool_calls": []}
    for line in lines:
        said = line["message"] if path == CHAT else {**line, "content": line["response"]}
        out["content"] += said["content"]
        out["thinking"] += said.get("thinking", "")
        out["tool_calls"] += said.get("tool_calls", [])
    return out


def with_prompt(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """`body` over something to say."""
    return {**({"messages": HELLO} if path == CHAT else {"prompt": "Hello"}), **body}
