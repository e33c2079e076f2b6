"""How many tokens a text has, where nobody counts."""

from __future__ import annotations

import math

BYTES_PER_TOKEN = 4  # of English text about that many


def estimated_tokens(text: str) -> int:
    """About how many tokens `text` has."""
    return math.ceil(len(text.encode()) / BYTES_PER_TOKEN)
