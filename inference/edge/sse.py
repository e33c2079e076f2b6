"""Server-sent events of the API families."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
from django.http import StreamingHttpResponse

from llamaweb.lib.event_stream import CONTENT_TYPE, HEADERS, event


def frame(data: dict[str, Any], event_id: str | None = None) -> bytes:
    """`data` as one event."""
    return event(orjson.dumps(data), event_id)


def sse_response(chunks: AsyncIterator[bytes]) -> StreamingHttpResponse:
    """A 200 that sends `chunks` as they come."""
    return StreamingHttpResponse(chunks, content_type=CONTENT_TYPE, headers=HEADERS)
