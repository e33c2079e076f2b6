"""Ending text before a stop string, whatever the cuts between its pieces are.

The stop string that is complete first wins; of several completed by the same character the
longest, so that no part of any of them is released.

The work for a character doesn't grow with the number or length of the stop strings: they are one
tree, and the text so far is a place in it (the method of Aho and Corasick).
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

MAX_CACHED_TREES = 16


@dataclass(frozen=True, slots=True)
class Released:
    """Text that may be shown, and the stop string that ended it, if one did."""

    text: str
    stop_string: str | None = None


class _Node:
    """The beginning of one or more stop strings, `depth` characters long.

    `shorter`: the longest other beginning that this one ends with; None at the root.
    `stop`: the longest stop string that this one ends with.
    """

    __slots__ = ("depth", "following", "shorter", "stop")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.following: dict[str, _Node] = {}
        self.shorter: _Node | None = None
        self.stop: str | None = None

    def after(self, char: str) -> _Node:
        """The longest beginning that this one and `char` end with."""
        node = self
        while (found := node.following.get(char)) is None:
            if node.shorter is None:
                return node
            node = node.shorter
        return found


@functools.lru_cache(MAX_CACHED_TREES)
def _tree(stops: tuple[str, ...]) -> _Node:
    """The root; answers of one request, and a client's next ones, have the same stop strings."""
    root = _Node(0)
    for stop in stops:
        node = root
        for char in stop:
            if char not in node.following:
                node.following[char] = _Node(node.depth + 1)
            node = node.following[char]
        node.stop = stop
    waiting = deque([root])  # by depth: what is shorter is complete before it is needed
    while waiting:
        node = waiting.popleft()
        for char, child in node.following.items():
            child.shorter = root if node.shorter is None else node.shorter.after(char)
            child.stop = child.stop or child.shorter.stop
            waiting.append(child)
    return root


class StopStrings:
    """Holds back what may still become a stop string.

    After a match nothing more may be pushed; the matched text and what follows it are dropped.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._root = self._place = _tree(tuple(dict.fromkeys(stop for stop in stops if stop)))
        self._held = ""

    def push(self, text: str) -> Released:
        """Take `text` in and return what can't be part of a stop string any more."""
        if not self._root.following:
            return Released(text)
        place = self._place
        for end, char in enumerate(text, start=len(self._held) + 1):
            place = place.after(char)
            if place.stop is not None:
                start = end - len(place.stop)
                return Released((self.flush() + text)[:start], place.stop)
        self._place = place
        text = self._held + text
        cut = len(text) - place.depth
        self._held = text[cut:]
        return Released(text[:cut])

    def flush(self) -> str:
        """The held text, once: nothing will complete it."""
        held, self._held, self._place = self._held, "", self._root
        return held
