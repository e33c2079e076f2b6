"""Server-sent events: one JSON line an event, comments while nothing comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
from django.http import StreamingHttpResponse

DONE = b"data: [DONE]\n\n"
PING = b":\n\n"

# Line ends for some clients, though not for the format: written as JSON escapes.
_LINE_ENDS = (
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
    (b"\xc2\x85", b"\\u0085"),
)


def frame(data: dict[str, Any], event_id: str | None = None) -> bytes:
    """`data` as one event with one data line, whatever is in its texts."""
    body = orjson.dumps(data)
    for character, escaped in _LINE_ENDS:
        body = body.replace(character, escaped)
    head = f"id: {event_id}\n".encode() if event_id is not None else b""
    return head + b"data: " + body + b"\n\n"


def sse_response(chunks: AsyncIterator[bytes]) -> StreamingHttpResponse:
    """A 200 that sends `chunks` as they come, unbuffered on the way."""
    return StreamingHttpResponse(
        chunks,
        content_type="text/event-stream",
        headers={"X-Accel-Buffering": "no", "Cache-Control": "no-cache"},
    )
