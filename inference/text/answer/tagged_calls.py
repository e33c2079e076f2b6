"""Calls with each argument in tags of its own: `<function=f><parameter=a>1</parameter></function>`.

Values stand as they are, nothing in them is escaped. So a closing tag closes only where something
follows that may: inside a value it is text.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from inference.text.answer.cursor import (
    NotThisError,
    Reading,
    Words,
    ahead,
    runs,
    space,
    upto,
    word,
    words,
)
from inference.text.answer.formats import Head
from inference.text.answer.scene import Scene
from inference.text.answer.tools import STRING, Tool, ValueText
from inference.text.answer.values import quoted

MAX_GAP_CHARS = 64  # white space between tags, where it decides what they are
MAX_KEY_CHARS = 256  # with what else stands in a parameter's opening tag


@dataclass(frozen=True)
class Parameter:
    """How one argument is written: `opener`, then text matched by `head` up to one of `head_ends`
    (and `value_opener`, white space between them), the value, `closer`.

    Groups of `head`: `key`, and `type` where the model writes one. `escaped`: keys are written as
    in HTML.
    """

    opener: str
    head: re.Pattern[str]
    head_end: str
    closer: str
    value_opener: str = ""
    escaped: bool = False


@dataclass(frozen=True)
class TaggedCalls:
    """`openers`, a head, parameters, one of `closers`. `lines`: tags stand on lines of their own,
    so that the first and the last line end of a value belong to the tags."""

    openers: tuple[str, ...]
    head: Head
    parameter: Parameter
    closers: tuple[str, ...]
    lines: bool = False

    @property
    def markers(self) -> tuple[str, ...]:
        """See `CallFormat.markers`."""
        p = self.parameter
        return (*self.closers, p.opener, p.head_end, p.value_opener, p.closer)

    def read(self, scene: Scene, after: Words) -> Reading[None]:
        """See `CallFormat.read`."""
        tool, found = yield from self.head.read(scene)
        if found.groupdict().get("empty"):
            scene.begin(tool)
            scene.writer.arguments("{}")
            scene.writer.end()
            return
        yield from space(scene.cursor)
        if not (yield from ahead(scene.cursor, words(self.parameter.opener, *self.closers))):
            raise NotThisError
        scene.begin(tool)
        yield from _TaggedCall(self, scene, tool, after).read()


class _TaggedCall:
    """One call while it is read."""

    def __init__(self, format_: TaggedCalls, scene: Scene, tool: Tool, after: Words) -> None:
        self._format = format_
        self._scene = scene
        self._tool = tool
        self._after = after
        self._keys: set[str] = set()
        self._parameter = parameter = format_.parameter
        self._followers = words(parameter.opener, *format_.closers)
        ends = (parameter.opener, parameter.closer, *format_.closers)
        self._ends = words(*ends)
        lines = ("\n" + end for end in ends) if format_.lines else ()
        self._stops = words(*ends, *lines)

    def read(self) -> Reading[None]:
        take = self._scene.writer.arguments
        while True:
            yield from space(self._scene.cursor)
            found = yield from word(self._scene.cursor, self._followers)
            if not found:
                raise NotThisError
            if found != self._parameter.opener:
                take("}" if self._keys else "{}")
                self._scene.writer.end()
                return
            key, written_type = yield from self._head()
            take((", " if self._keys else "{") + quoted(key) + ": ")
            self._keys.add(key)
            value = ValueText(self._types(key, written_type), take)
            yield from self._value(value)
            value.close()

    def _head(self) -> Reading[tuple[str, str]]:
        parameter = self._parameter
        text, _ = yield from upto(self._scene.cursor, words(parameter.head_end), MAX_KEY_CHARS)
        found = parameter.head.fullmatch(text)
        if found is None:
            raise NotThisError
        if parameter.value_opener:
            yield from space(self._scene.cursor)
            if not (yield from word(self._scene.cursor, words(parameter.value_opener))):
                raise NotThisError
        key = html.unescape(found["key"]) if parameter.escaped else found["key"]
        return key, found.groupdict().get("type") or ""

    def _types(self, key: str, written: str) -> frozenset[str]:
        """What the model says of a value's type, else what the schema says."""
        if written in ("true", "string"):
            return STRING
        known = self._tool.types(key)
        return known - STRING if written else known

    def _value(self, value: ValueText) -> Reading[None]:
        """The value, and its end."""
        cursor = self._scene.cursor
        if self._format.lines and (yield from cursor.peek()) == "\n":
            cursor.take()
        while True:
            if not (yield from runs(cursor, self._stops.plain, value.add)):
                raise NotThisError
            if (yield from ahead(cursor, self._stops)) and (
                yield from self._scene.attempt(self._end(), MAX_GAP_CHARS + MAX_KEY_CHARS)
            ):
                return
            value.add(cursor.take())

    def _end(self) -> Reading[None]:
        """A closer that closes, or what shows that it was left out (which stays to be read)."""
        cursor = self._scene.cursor
        own_line = self._format.lines and (yield from cursor.peek()) == "\n"
        if own_line:
            cursor.take()
        mark = cursor.mark(MAX_GAP_CHARS + MAX_KEY_CHARS)
        found = yield from word(cursor, self._ends)
        if found == self._parameter.closer:
            mark = cursor.mark(MAX_GAP_CHARS)
            at_end = not (yield from space(cursor))
            if not at_end and not (yield from word(cursor, self._followers)):
                raise NotThisError
        elif found == self._parameter.opener:
            key, _ = yield from self._head()
            if not self._tool.knows(key) or key in self._keys:
                raise NotThisError
        elif not found or not (yield from self._may_end()):
            raise NotThisError
        cursor.back(mark)

    def _may_end(self) -> Reading[bool]:
        """Whether no text follows."""
        cursor = self._scene.cursor
        return not (yield from space(cursor)) or bool((yield from word(cursor, self._after)))
