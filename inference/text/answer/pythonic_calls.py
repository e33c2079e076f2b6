"""Calls in Python's notation: `[weather(city="Paris", days=3), time()]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from inference.text.answer.cursor import NotThisError, Reading, Words, runs, space
from inference.text.answer.scene import Scene
from inference.text.answer.values import PYTHON, quoted, value

NAME = re.compile(r"[\w.\-]+")
MAX_NAME_CHARS = 256
SEPARATORS = re.compile(r"[\s,;]+")


@dataclass(frozen=True)
class PythonicCalls:
    """A list of calls behind an opener, or at the answer's beginning; behind an opener the
    brackets may be missing."""

    openers: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()

    def read(self, scene: Scene, after: Words) -> Reading[None]:
        """See `CallFormat.read`."""
        in_list = (yield from space(scene.cursor)) == "["
        if in_list:
            scene.cursor.take()
        elif not self.openers:
            raise NotThisError
        yield from self._call(scene)
        while (yield from scene.attempt(self._call(scene))):
            pass
        if in_list:
            yield from scene.attempt(self._list_end(scene))

    def _call(self, scene: Scene) -> Reading[None]:
        cursor, take = scene.cursor, scene.writer.arguments
        name = yield from _name(scene)
        tool = scene.tools.find(name)
        if (yield from space(cursor)) != "(":
            raise NotThisError
        cursor.take()
        scene.begin(tool)
        lead = "{"
        while (yield from runs(cursor, SEPARATORS, _drop)) != ")":
            take(lead + quoted((yield from _name(scene))) + ": ")
            lead = ", "
            if (yield from space(cursor)) != "=":
                raise NotThisError
            cursor.take()
            yield from space(cursor)
            yield from value(cursor, PYTHON, take)
        cursor.take()
        take("}" if lead == ", " else "{}")
        scene.writer.end()

    def _list_end(self, scene: Scene) -> Reading[None]:
        if (yield from runs(scene.cursor, SEPARATORS, _drop)) != "]":
            raise NotThisError
        scene.cursor.take()


def _name(scene: Scene) -> Reading[str]:
    cursor = scene.cursor
    yield from runs(cursor, SEPARATORS, _drop)
    held: list[str] = []
    mark = cursor.mark(MAX_NAME_CHARS)
    yield from runs(cursor, NAME, held.append)
    if not held:
        raise NotThisError
    cursor.unmark(mark)
    return "".join(held)


def _drop(_: str) -> None:
    """Separators."""
