"""Ending text at a line that is indented less than asked for."""

from __future__ import annotations


class MinIndent:
    """Watches the lines after the first. A blank line is one with no indent."""

    def __init__(self, least: int) -> None:
        """`least`: spaces and tabs that each further line has to begin with."""
        self._least = least
        self._width: int | None = None  # of the line that begins; None: behind its beginning

    def push(self, text: str) -> tuple[str, bool]:
        """The text to show, and whether it ends there."""
        for index, char in enumerate(text):
            if self._width is not None:
                if char in " \t":
                    self._width += 1
                    continue
                if self._width < self._least:
                    return text[:index], True
                self._width = None
            if char == "\n":
                self._width = 0
        return text, False
