"""Where in a JSON document something is, as people write it."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
