"""How deeply values from outside may be nested.

What walks them later (JSON, templates, copies) does so by recursion, and Python's stack ends much
earlier than the JSON decoder's bound.
"""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 64  # lists and objects inside each other


def is_deep(value: Any, max_depth: int = MAX_DEPTH) -> bool:
    """Whether lists and objects in `value` are nested more than `max_depth` times."""
    level = [value]
    for _ in range(max_depth + 1):
        level = [item for item in level if type(item) is dict or type(item) is list]
        if not level:
            return False
        level = [
            child for item in level for child in (item.values() if type(item) is dict else item)
        ]
    return True
