"""Calls as JSON objects that hold their name: `{"name": …, "arguments": {…}}`, one or a list."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from inference.text.answer.cursor import NotThisError, Reading, Words, runs, space
from inference.text.answer.scene import Scene
from inference.text.answer.tools import Tool
from inference.text.answer.values import (
    JSON,
    MAX_KEY_CHARS,
    mapping,
    text_value,
    value,
)

SEPARATORS = re.compile(r"[\s,;]+")


@dataclass(frozen=True)
class JsonCalls:
    """Objects behind an opener, or at the answer's beginning.

    `names`, `arguments`, `ids`: the keys in use. `named_by_key`: `{"name": {…arguments…}}`.
    """

    openers: tuple[str, ...] = ()
    names: tuple[str, ...] = ("name",)
    arguments: tuple[str, ...] = ("arguments", "parameters")
    ids: tuple[str, ...] = ("id", "tool_call_id")
    named_by_key: bool = False
    markers: tuple[str, ...] = ()

    def read(self, scene: Scene, after: Words) -> Reading[None]:
        """See `CallFormat.read`."""
        char = yield from space(scene.cursor)
        in_list = char == "["
        if in_list:
            scene.cursor.take()
            yield from space(scene.cursor)
        yield from self.read_one(scene)
        while (yield from scene.attempt(self._next(scene))):
            pass
        if in_list:
            yield from scene.attempt(self._list_end(scene))

    def _next(self, scene: Scene) -> Reading[None]:
        yield from runs(scene.cursor, SEPARATORS, _drop)
        yield from self.read_one(scene)

    def _list_end(self, scene: Scene) -> Reading[None]:
        if (yield from runs(scene.cursor, SEPARATORS, _drop)) != "]":
            raise NotThisError
        scene.cursor.take()

    def read_one(self, scene: Scene) -> Reading[None]:
        """One object."""
        yield from _CallObject(self, scene).read()


class _CallObject:
    """One call while it is read."""

    def __init__(self, format_: JsonCalls, scene: Scene) -> None:
        self._format = format_
        self._scene = scene
        self._tool: Tool | None = None
        self._id = ""
        self._early: list[str] = []  # arguments that came before the name
        self._begun = False
        self._has_arguments = False

    def read(self) -> Reading[None]:
        if (yield from self._scene.cursor.peek()) != "{":
            raise NotThisError
        yield from self._object(self._outer_member)
        if self._tool is None:
            raise NotThisError
        if not self._begun:
            self._begin()
        if not self._has_arguments:
            self._scene.writer.arguments("{}")
        self._scene.writer.end()

    def _object(self, member: Callable[[str], Reading[None]]) -> Reading[None]:
        """An object, `member` reading the value behind each key."""
        cursor = self._scene.cursor
        cursor.take()
        while (char := (yield from runs(cursor, SEPARATORS, _drop))) != "}":
            if char != '"':
                raise NotThisError
            cursor.take()
            key = yield from text_value(cursor, JSON, '"', MAX_KEY_CHARS)
            if (yield from space(cursor)) != ":":
                raise NotThisError
            cursor.take()
            yield from space(cursor)
            yield from member(key)
        cursor.take()

    def _outer_member(self, key: str) -> Reading[None]:
        if key == "function" and self._tool is None:
            char = yield from self._scene.cursor.peek()
            if char == "{":
                yield from self._object(self._member)
                return
            key = self._format.names[0]
        yield from self._member(key)

    def _member(self, key: str) -> Reading[None]:
        form = self._format
        if form.named_by_key and self._tool is None:
            self._tool = self._scene.tools.find(key)
            yield from self._arguments()
        elif key in form.names and self._tool is None:
            self._tool = self._scene.tools.find((yield from self._text()))
        elif key in form.arguments and not self._has_arguments:
            yield from self._arguments()
        elif key in form.ids and not self._begun:
            self._id = yield from self._scalar()
        elif self._begun or key == "type":
            yield from value(self._scene.cursor, JSON, _drop)
        else:
            raise NotThisError

    def _begin(self) -> None:
        if self._tool is not None:
            self._scene.begin(self._tool, self._id)
            self._begun = True
            for piece in self._early:
                self._scene.writer.arguments(piece)

    def _take(self, piece: str) -> None:
        if self._begun:
            self._scene.writer.arguments(piece)
        else:
            self._early.append(piece)

    def _arguments(self) -> Reading[None]:
        """The arguments: an object, the JSON text of one, or null for none."""
        cursor = self._scene.cursor
        char = yield from cursor.peek()
        if char == "{":
            self._has_arguments = True
            self._begin()
            yield from mapping(cursor, JSON, self._take)
        elif char == '"':
            text: list[str] = []
            yield from value(cursor, JSON, text.append)
            self._has_arguments = True
            self._take_text(json.loads("".join(text)))
        else:
            if (yield from self._scalar()) != "null":
                raise NotThisError

    def _take_text(self, text: str) -> None:
        try:
            is_object = isinstance(json.loads(text or "{}"), dict)
        except (ValueError, RecursionError):
            is_object = False
        if not is_object:
            raise NotThisError
        self._begin()
        self._take(text or "{}")

    def _text(self) -> Reading[str]:
        cursor = self._scene.cursor
        if (yield from cursor.peek()) != '"':
            raise NotThisError
        cursor.take()
        return (yield from text_value(cursor, JSON, '"', MAX_KEY_CHARS))

    def _scalar(self) -> Reading[str]:
        """A string's text, or a literal as it stands."""
        if (yield from self._scene.cursor.peek()) == '"':
            return (yield from self._text())
        if (yield from self._scene.cursor.peek()) in ("{", "["):
            raise NotThisError
        held: list[str] = []
        yield from value(self._scene.cursor, JSON, held.append)
        return "".join(held)


def _drop(_: str) -> None:
    """Separators, and values that say nothing about the call."""
