"""What a `$ref` inside a schema stands for. Source: RFC 6901, section 6."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

MAX_REFERENCE_CHARS: Final = 1024


def resolved(reference: str, root: Mapping[str, Any]) -> Any:
    """The part of `root` that the pointer `reference` (`#/…`) leads to, `root` itself for `#`; None
    where it is no pointer into it, such as an address or an anchor, or leads nowhere."""
    if reference == "#":
        return root
    if not reference.startswith("#/") or len(reference) > MAX_REFERENCE_CHARS:
        return None
    place: Any = root
    for key in unquote(reference[2:]).split("/"):
        place = _at(place, key.replace("~1", "/").replace("~0", "~"))
    return place


def _at(place: Any, key: str) -> Any:
    if isinstance(place, Mapping):
        return place.get(key)
    is_index = isinstance(place, list) and key.isascii() and key.isdigit()
    return place[int(key)] if is_index and int(key) < len(place) else None
