"""What is wrong in a JSON document, and where, as people write it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Parts of a pydantic location that name a type of a union, not a field.
_TYPE_LABEL_RE = re.compile(r"^(str|int|float|bool|none|bytes|.*[\[\]() ].*)$")


def json_path(location: Sequence[str | int]) -> str | None:
    """pydantic's ("messages", 0, "role") as `messages[0].role`; None for the whole document."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not _TYPE_LABEL_RE.match(part):
            path += f".{part}" if path else part
    return path or None


def first_finding(
    findings: Sequence[Mapping[str, Any]],
    nothing: str,
    path_of: Callable[[tuple[Any, ...]], str | None],
) -> tuple[str | None, str]:
    """The first of pydantic's findings: where, by `path_of` its location, and what; `nothing`: what
    to say if there is none."""
    first = findings[0] if findings else {"loc": (), "msg": nothing}
    return path_of(tuple(first["loc"])), str(first["msg"]).removeprefix("Value error, ")
