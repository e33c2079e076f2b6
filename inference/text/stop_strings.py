"""Ending text before a stop string, whatever the cuts between its pieces are.

The stop string that is complete first wins; of several completed by the same character the
longest, so that no part of any of them is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Released:
    """Text that may be shown, and the stop string that ended it, if one did."""

    text: str
    stop_string: str | None = None


class StopStrings:
    """Holds back what may still become a stop string.

    After a match nothing more may be pushed; the matched text and what follows it are dropped.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(dict.fromkeys(stop for stop in stops if stop))
        self._inner_chars = frozenset(char for stop in self._stops for char in stop[:-1])
        self._held = ""

    def push(self, text: str) -> Released:
        """Take `text` in and return what can't be part of a stop string any more."""
        if not self._stops:
            return Released(text)
        text = self._held + text
        match = self._first_complete(text)
        if match is not None:
            start, stop = match
            self._held = ""
            return Released(text[:start], stop)
        cut = len(text) - self._undecided_len(text)
        self._held = text[cut:]
        return Released(text[:cut])

    def flush(self) -> str:
        """The held text, once: nothing will complete it."""
        held, self._held = self._held, ""
        return held

    def _first_complete(self, text: str) -> tuple[int, str] | None:
        found = [
            (start + len(stop), start, stop)
            for stop in self._stops
            if (start := text.find(stop)) >= 0
        ]
        if not found:
            return None
        _, start, stop = min(found)
        return start, stop

    def _undecided_len(self, text: str) -> int:
        """Length of the longest tail of `text` that is the beginning of a stop string."""
        if not text or text[-1] not in self._inner_chars:
            return 0
        longest = 0
        for stop in self._stops:
            for length in range(min(len(stop) - 1, len(text)), longest, -1):
                if text.endswith(stop[:length]):
                    longest = length
                    break
        return longest
