"""Regular expressions of `pattern`: ECMAScript's, while those of the compiler are not quite.

What both read alike passes; where one reads something else the pattern is refused, since the
answer would keep another promise than the one that was asked for.
"""

from __future__ import annotations

import string

MAX_PATTERN_CHARS = 4096
_LETTERS = frozenset("dDwWsSnrtfvbBxuckpP")
_SET_OPERATORS = ("&&", "--", "~~")


def is_portable(pattern: str) -> bool:
    """Whether the two languages mean the same by `pattern`; whether it can be read at all is for
    the compiler to say."""
    pos = 0
    while pos < len(pattern):
        char = pattern[pos]
        if char == "\\":
            if not _is_portable_escape(pattern[pos + 1 : pos + 2]):
                return False
            pos += 2
        elif char == "[":
            end = _class_end(pattern, pos + 1)
            if end is None:
                return False
            pos = end
        elif pattern.startswith("(?", pos) and not _is_portable_group(pattern[pos + 2 : pos + 4]):
            return False
        else:
            pos += 1
    return True


def _is_portable_escape(char: str) -> bool:
    if char in string.ascii_letters or char in string.digits:
        return char in _LETTERS
    return char not in "<>"  # edges of words for the compiler


def _is_portable_group(mark: str) -> bool:
    return mark[:1] in (":", "=", "!", "<")


def _class_end(pattern: str, pos: int) -> int | None:
    """Behind the class whose inside begins at `pos`; None: it isn't portable."""
    start = pos + pattern.startswith("^", pos)
    pos = start
    while pos < len(pattern):
        char = pattern[pos]
        if char == "]":
            # ECMAScript reads [] as nothing and [^] as anything, the compiler as a bracket.
            return None if pos == start else pos + 1
        if char == "[" or pattern[pos : pos + 2] in _SET_OPERATORS:
            return None
        if char == "\\":
            escaped = pattern[pos + 1 : pos + 2]
            if escaped in ("b", "B") or not _is_portable_escape(escaped):
                return None
            pos += 1
        pos += 1
    return None
