"""Places in the list as text that clients hand back unread. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from llamaweb.lib.errors import InvalidError

_CURSOR_RE = re.compile(r"([0-9]{1,16})-([A-Za-z0-9-]{1,40})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def cursor_write(at: datetime, id_: str) -> str:
    """The cursor of the row with this instant and id."""
    return f"{(at - _EPOCH) // _MICROSECOND}-{id_}"


def cursor_read(text: str) -> tuple[datetime, str]:
    """What `cursor_write` was given.

    Raises:
        InvalidError: no cursor of ours.
    """
    match = _CURSOR_RE.fullmatch(text)
    if match is None:
        raise InvalidError("before must be the `next` of a page", param="before")
    return _EPOCH + int(match[1]) * _MICROSECOND, match[2]
