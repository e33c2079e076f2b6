"""A client of the Anthropic routes, in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from django.test import AsyncClient

from inference.edge.anthropic.render import joined

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
HELLO = [{"role": "user", "content": "Hello"}]


@dataclass
class Events:
    """A stream as it came: `data` are the events' objects."""

    raw: bytes
    data: list[dict[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    num_pings: int = 0

    @property
    def kinds(self) -> list[str]:
        """The events' names in order."""
        return [event["type"] for event in self.data]

    @property
    def text(self) -> str:
        """All text of the answer."""
        deltas = (event["delta"] for event in self.data if event["type"] == "content_block_delta")
        return "".join(delta.get("text", "") for delta in deltas)

    @property
    def message(self) -> dict[str, Any]:
        """What a client makes of a complete stream."""
        assert self.kinds[0] == "message_start"
        assert self.kinds[-2:] == ["message_delta", "message_stop"]
        return joined(self.data)


def parse_events(raw: bytes) -> Events:
    """Read a stream strictly: id, name, one data line, blank line; or a comment."""
    out = Events(raw)
    assert raw == b"" or raw.endswith(b"\n\n")
    for block in raw.decode().split("\n\n")[:-1]:
        if block.startswith(":"):
            continue
        lines = block.split("\n")
        if lines[0].startswith("id: "):
            out.ids.append(lines.pop(0)[4:])
        name, data = lines
        assert name.startswith("event: ")
        assert data.startswith("data: ")
        event = json.loads(data[6:])
        assert event["type"] == name[7:]
        if event["type"] == "ping":
            out.num_pings += 1
        else:
            out.data.append(event)
    return out


def fields(**body: Any) -> dict[str, Any]:
    """A body that says hello unless told."""
    return {"max_tokens": 100, "messages": HELLO, **body}


class Client:
    """`ask` answers (status, body), `stream` a 200 stream."""

    def __init__(self) -> None:
        self.client = AsyncClient(raise_request_exception=False)

    async def response(self, body: Any, path: str = MESSAGES, **headers: str) -> Any:
        """The response itself; `body` as it is if it is bytes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post(
            path, data=data, content_type="application/json", headers=headers
        )

    async def ask(self, **body: Any) -> tuple[int, Any]:
        """Status and parsed body."""
        response = await self.response(fields(**body))
        return response.status_code, json.loads(response.content)

    async def count(self, **body: Any) -> tuple[int, Any]:
        """As `ask`, of the route that counts."""
        response = await self.response({"messages": HELLO, **body}, COUNT)
        return response.status_code, json.loads(response.content)

    async def stream(self, **body: Any) -> Events:
        """The whole stream."""
        response = await self.response(fields(stream=True, **body))
        assert response.status_code == 200
        assert response["Content-Type"].startswith("text/event-stream")
        return parse_events(b"".join([part async for part in response.streaming_content]))
