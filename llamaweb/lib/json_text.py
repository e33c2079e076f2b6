"""Reading JSON that came over the wire."""

from __future__ import annotations

import re
from typing import Any

import orjson

from llamaweb.lib.errors import InvalidError

# A first half without its second, or a second half without its first. Both begin alike, so that
# the search for the beginning is fast.
_LONE_RE = re.compile(
    rb"\\u[dD](?:"
    rb"[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
_ESCAPED_BACKSLASH = rb"\\"
_MARK = b"\0"  # in JSON no byte of this value is possible


def json_value(data: bytes) -> Any:
    """The value in `data`; escapes of half a surrogate pair are U+FFFD.

    JavaScript writes such an escape for a text that was cut inside an emoji.

    Raises:
        InvalidError: not JSON, or nested too deeply for the decoder; tells the place, not the text.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        whole = _with_whole_escapes(data)
        if whole is None:
            raise _invalid(error) from None
    try:
        return orjson.loads(whole)
    except orjson.JSONDecodeError as error:
        raise _invalid(error) from None


def _with_whole_escapes(data: bytes) -> bytes | None:
    """`data` of the same length with the lone surrogates replaced, None if there are none."""
    if _MARK in data:
        return None
    # Without the escaped backslashes, every other one begins an escape.
    whole, count = _LONE_RE.subn(rb"\\ufffd", data.replace(_ESCAPED_BACKSLASH, _MARK))
    return whole.replace(_MARK, _ESCAPED_BACKSLASH) if count else None


def _invalid(error: orjson.JSONDecodeError) -> InvalidError:
    return InvalidError(f"the body is not valid JSON: {error.msg}")
