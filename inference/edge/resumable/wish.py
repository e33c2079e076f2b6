"""Whether a client wants to come back to its stream, and under which name."""

from __future__ import annotations

from django.http import HttpRequest

from llamaweb.lib.errors import InvalidError
from llamaweb.lib.ids import new_id
from llamaweb.lib.json_text import json_value

HEADER = "X-Conversation-Id"
FIELD = "resumable"
MAX_STREAM_ID_CHARS = 256
ID_PREFIX = "stream-"
MODEL_MARK = "::"  # between a conversation's name and a model's


def stream_id_of(request: HttpRequest) -> str:
    """The name that the client gives its stream (X-Conversation-Id), a new one if its body says
    `"resumable": true`, or "".

    Raises:
        InvalidError: the name is too long, or the field is no boolean.
    """
    wants = _wants(request)
    named = checked_id(header_text(request, HEADER), HEADER) if HEADER in request.headers else ""
    return named or (new_id(ID_PREFIX) if wants else "")


def header_text(request: HttpRequest, name: str) -> str:
    """A header, in UTF-8 if it is."""
    text = str(request.headers.get(name, ""))
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def checked_id(stream_id: str, param: str) -> str:
    """`stream_id`, without spaces around it.

    Raises:
        InvalidError: it is too long, or has characters that aren't to be seen.
    """
    stream_id = stream_id.strip()
    if len(stream_id) > MAX_STREAM_ID_CHARS:
        raise InvalidError(f"has more than {MAX_STREAM_ID_CHARS} characters", param=param)
    if not stream_id.isprintable():
        raise InvalidError("has control characters", param=param)
    return stream_id


def _wants(request: HttpRequest) -> bool:
    """The body's field, which is the same in every family."""
    body = request.body
    if f'"{FIELD}"'.encode() not in body:  # nearly all
        return False
    data = json_value(body)
    wanted = data.get(FIELD) if isinstance(data, dict) else None
    if not isinstance(wanted, bool | None):
        raise InvalidError("must be true or false", param=FIELD)
    return bool(wanted)
