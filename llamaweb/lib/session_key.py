"""What a session's cookie can hold. Pure."""

from __future__ import annotations

import re

# Django's own alphabet. What a database refuses to look for, a NUL for one, isn't asked for.
_KEY_RE = re.compile(r"[a-z0-9]{8,40}")


def is_session_key(text: str) -> bool:
    """Whether `text` can be the key of a session at all."""
    return _KEY_RE.fullmatch(text) is not None
