"""What is wrong with a file."""

from __future__ import annotations

import unicodedata
from typing import Final

from llamaweb.lib.errors import InvalidError

SHOWN_CHARS: Final = 128  # kept of a text


class GgufError(InvalidError):
    """The file isn't a model that can be served; the message names the place and says why."""


def check_count(what: str, count: int, limit: int) -> None:
    """Whether there are no more of something than there may be.

    Raises:
        GgufError: there are.
    """
    if count > limit:
        raise GgufError(f"the header claims {count:,} {what}; {limit:,} are allowed")


def shown(value: str | bytes, num_chars: int = SHOWN_CHARS) -> str:
    """A short text for people: printable, on one line."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    kept = (c if unicodedata.category(c)[0] not in "CZ" else " " for c in text)
    return " ".join("".join(kept).split())[:num_chars]
