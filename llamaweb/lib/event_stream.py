"""Server-sent events on the wire: one data line an event, comments while nothing comes."""

from __future__ import annotations

from typing import Final

CONTENT_TYPE: Final = "text/event-stream"
HEADERS: Final = {"X-Accel-Buffering": "no", "Cache-Control": "no-cache"}  # unbuffered on the way
PING: Final = b":\n\n"

MAX_COMMENT_CHARS: Final = 500

# Line ends for some clients, though not for the format: written as JSON escapes.
_LINE_ENDS: Final = (
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
    (b"\xc2\x85", b"\\u0085"),
)


def comment(text: str) -> bytes:
    """Words for whoever looks at the stream; clients skip them."""
    return f": {' '.join(text.split())[:MAX_COMMENT_CHARS]}\n\n".encode()


def event(body: bytes, event_id: str | None = None, name: str = "") -> bytes:
    """JSON as one event with one data line, whatever is in its texts."""
    for character, escaped in _LINE_ENDS:
        body = body.replace(character, escaped)
    head = f"id: {event_id}\n".encode() if event_id is not None else b""
    if name:
        head += f"event: {name}\n".encode()
    return head + b"data: " + body + b"\n\n"
