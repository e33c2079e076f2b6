"""How a family of models writes tool calls: the parts that all formats have.

A format is a description; what it describes is read by its `read`, which starts behind one of the
format's openers (or at the answer's beginning, for a format without one) and raises `NotThisError`
as soon as it sees that no call stands there. Until a tool's name and the beginning of arguments
were seen, all of it may become text again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from inference.text.answer.cursor import NotThisError, Reading, Words, space, upto, word, words
from inference.text.answer.scene import Scene
from inference.text.answer.tools import Tool
from inference.text.answer.values import JSON, Notation, mapping

MAX_HEAD_CHARS = 96  # besides the tool's name


class CallFormat(Protocol):
    """One way to write calls."""

    @property
    def openers(self) -> tuple[str, ...]:
        """Markers in front of a call; none: a call stands where an answer may begin."""
        ...

    @property
    def markers(self) -> tuple[str, ...]:
        """All literal texts that may be tokens of their own."""
        ...

    def read(self, scene: Scene, after: Words) -> Reading[None]:
        """Read the calls behind an opener; `after`: what may follow a call besides text."""
        ...


@dataclass(frozen=True)
class Head:
    """What stands between an opener and a call's arguments: matched by `pattern`, whose groups are
    `name` and perhaps `id`; ended by one of `ends`, which stays to be read if `kept`."""

    pattern: re.Pattern[str]
    ends: tuple[str, ...]
    kept: bool = False

    def read(self, scene: Scene) -> Reading[tuple[Tool, re.Match[str]]]:
        """The tool that is called, and what the pattern found.

        Raises:
            NotThisError: no such text, or no such tool.
        """
        cursor = scene.cursor
        bound = scene.tools.longest_name + MAX_HEAD_CHARS
        mark = cursor.mark(bound)
        text, _ = yield from upto(cursor, words(*self.ends), bound)
        found = self.pattern.fullmatch(text)
        if found is None:
            raise NotThisError
        tool = scene.tools.find(found["name"].strip())
        if self.kept:
            cursor.back(mark)
            yield from cursor.tail(len(text))
            cursor.take(len(text))
        else:
            cursor.unmark(mark)
        return tool, found


@dataclass(frozen=True)
class NamedCalls:
    """A name, then the arguments as one object: `[TOOL_CALLS]name[ARGS]{…}`.

    `tail`: what may stand directly behind the object.
    """

    openers: tuple[str, ...]
    head: Head
    notation: Notation = JSON
    tail: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()

    def read(self, scene: Scene, after: Words) -> Reading[None]:
        """See `CallFormat.read`."""
        tool, found = yield from self.head.read(scene)
        scene.begin(tool, found.groupdict().get("id") or "")
        yield from mapping(scene.cursor, self.notation, scene.writer.arguments)
        scene.writer.end()
        if self.tail:
            yield from scene.attempt(self._tail(scene), MAX_HEAD_CHARS)

    def _tail(self, scene: Scene) -> Reading[None]:
        yield from space(scene.cursor)
        if not (yield from word(scene.cursor, words(*self.tail))):
            raise NotThisError


def object_head(pattern: str) -> Head:
    """A head in front of an object."""
    return Head(re.compile(pattern, re.DOTALL), ("{",), kept=True)
