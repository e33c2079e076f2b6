"""A client that takes streams up again, in this process."""

from __future__ import annotations

import json
from typing import Any

from django.test import AsyncClient

NAME = "talk::models/tiny"
HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
SILENCES = {
    "text/event-stream": (b":\n\n", b'event: ping\ndata: {"type": "ping"}\n\n'),
    "application/x-ndjson": (b" ",),
}


class Streams:
    """Each call answers (status, bytes); of streams without what breaks silence at the start."""

    def __init__(self) -> None:
        self.client = AsyncClient(raise_request_exception=False)
        self.headers: dict[str, str] = {}  # of the last answer

    async def post(
        self, path: str, body: dict[str, Any], name: str = NAME, **headers: str
    ) -> tuple[int, bytes]:
        """Ask for a stream called `name`, one without a name if it is ""."""
        if name:
            headers["X-Conversation-Id"] = name
        response = await self.begin(path, body, **headers)
        return response.status_code, await self._bytes(response)

    async def begin(self, path: str, body: dict[str, Any], **headers: str) -> Any:
        """The response itself, whose stream isn't read yet."""
        data = json.dumps(body)
        return await self.client.post(
            path, data=data, content_type="application/json", headers=headers
        )

    async def take_up(self, name: str = NAME, *, last: str = "", **query: Any) -> tuple[int, bytes]:
        """GET /v1/stream."""
        headers = {"Last-Event-ID": last} if last else {}
        if name:
            query["conv_id"] = name
        response = await self.client.get("/v1/stream", query, headers=headers)
        return response.status_code, await self._bytes(response)

    async def get(self, path: str, **query: Any) -> tuple[int, bytes]:
        """GET of any path."""
        response = await self.client.get(path, query)
        return response.status_code, await self._bytes(response)

    async def delete(self, name: str) -> int:
        """DELETE /v1/stream."""
        response = await self.client.delete(f"/v1/stream?conv_id={name}")
        return int(response.status_code)

    async def lookup(self, body: Any) -> tuple[int, Any]:
        """POST /v1/streams/lookup."""
        response = await self.client.post(
            "/v1/streams/lookup", data=json.dumps(body), content_type="application/json"
        )
        return response.status_code, json.loads(response.content)

    async def _bytes(self, response: Any) -> bytes:
        self.headers = dict(response.items())
        if not response.streaming:
            return bytes(response.content)
        raw = b"".join([part async for part in response.streaming_content])
        for silence in SILENCES[self.headers["Content-Type"]]:
            raw = raw.removeprefix(silence)
        return raw
