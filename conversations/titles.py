"""Titles: one clean line. Pure."""

from __future__ import annotations

import unicodedata

TITLE_CHARS = 80  # of a title made from a message


def title_clean(text: str) -> str:
    """`text` on one line, without control, format and half characters."""
    spaced = "".join(" " if char.isspace() else char for char in text)
    kept = "".join(
        char for char in spaced if char == " " or not unicodedata.category(char).startswith("C")
    )
    return " ".join(kept.split())


def title_from(text: str) -> str:
    """The first line that says anything, cut at a word if there is one to cut at."""
    title = next((line for line in map(title_clean, text.splitlines()) if line), "")
    if len(title) <= TITLE_CHARS:
        return title
    head = title[: TITLE_CHARS - 1]
    cut = head.rfind(" ")
    return (head[:cut] if cut > TITLE_CHARS // 2 else head).rstrip() + "…"
