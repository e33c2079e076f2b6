"""What is wrong in a JSON document, and where, as people write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Parts of a pydantic location that name a type of a union, not a field.
_TYPE_LABELS = frozenset(
    (
        *("str", "int", "float", "bool", "none", "bytes"),
        *("constrained-str", "constrained-int", "constrained-float"),
    )
)
_LABEL_CHARS = "[]() "  # a label that has them says what is in the type
MAX_NAME_CHARS = 100  # shown of each field: the names of some are the client's own


def json_path(location: Sequence[str | int]) -> str | None:
    """pydantic's ("messages", 0, "role") as `messages[0].role`; None for the whole document."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not _is_label(part):
            name = part if len(part) <= MAX_NAME_CHARS else f"{part[:MAX_NAME_CHARS]}…"
            path += f".{name}" if path else name
    return path or None


def _is_label(part: str) -> bool:
    return part in _TYPE_LABELS or any(char in part for char in _LABEL_CHARS)


def first_finding(
    findings: Sequence[Mapping[str, Any]],
    nothing: str,
    path_of: Callable[[tuple[Any, ...]], str | None],
) -> tuple[str | None, str]:
    """The first of pydantic's findings: where, by `path_of` its location, and what; `nothing`: what
    to say if there is none."""
    first = findings[0] if findings else {"loc": (), "msg": nothing}
    return path_of(tuple(first["loc"])), str(first["msg"]).removeprefix("Value error, ")
