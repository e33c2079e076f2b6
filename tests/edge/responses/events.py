"""A client of the Responses routes, in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.edge.wire import Wire

PATH = "/v1/responses"
LAST = ("response.completed", "response.incomplete", "response.failed")


@dataclass
class Events:
    """A stream as it came."""

    raw: bytes
    data: list[dict[str, Any]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """What the events are called."""
        return [event["type"] for event in self.data]

    @property
    def response(self) -> dict[str, Any]:
        """The response in the last event, which is one of its ends."""
        assert self.names[-1] in LAST
        last: dict[str, Any] = self.data[-1]["response"]
        return last

    def of(self, name: str) -> list[dict[str, Any]]:
        """The events of one name."""
        return [event for event in self.data if event["type"] == name]

    def joined(self, name: str) -> str:
        """The deltas of one name."""
        return "".join(event["delta"] for event in self.of(name))


def events_of(raw: bytes, first: int = 0) -> Events:
    """Read a stream strictly: id, name and one data line an event, numbered from `first` on."""
    out = Events(raw)
    assert raw == b"" or raw.endswith(b"\n\n")
    for block in raw.decode().split("\n\n")[:-1]:
        if block.startswith(":"):
            continue
        id_line, name_line, data_line = block.split("\n")
        data = json.loads(data_line.removeprefix("data: "))
        assert name_line == f"event: {data['type']}"
        assert id_line == f"id: {data['sequence_number']}"
        assert data["sequence_number"] == first + len(out.data)
        out.data.append(data)
    return out


def pieces_of(raw: bytes) -> list[bytes]:
    """The bytes of each event, without comments."""
    blocks = raw.split(b"\n\n")[:-1]
    return [block + b"\n\n" for block in blocks if not block.startswith(b":")]


async def post(wire: Wire, **body: Any) -> tuple[int, Any]:
    """Ask for a response; a text if the body has no input."""
    response = await wire.raw(PATH, json.dumps({"input": "Hello", **body}).encode())
    return response.status_code, json.loads(response.content)


async def stream(wire: Wire, **body: Any) -> Events:
    """Ask for a response as a stream."""
    body = {"input": "Hello", **body, "stream": True}
    response = await wire.raw(PATH, json.dumps(body).encode())
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/event-stream")
    return events_of(await read(response))


async def read(response: Any) -> bytes:
    """All bytes of a stream."""
    return b"".join([part async for part in response.streaming_content])
