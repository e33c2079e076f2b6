"""The format for templates that know no tools: the whole answer is one JSON object.

`{"tool_call": {"name": …, "arguments": {…}}}`, `{"tool_calls": […]}` or `{"response": "…"}`. A
grammar can force it; without one a model that was shown it may use it, or just write text.
"""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass

from inference.text.answer.cursor import NotThisError, Reading, Words, space
from inference.text.answer.json_calls import JsonCalls
from inference.text.answer.scene import Scene
from inference.text.answer.values import JSON, MAX_KEY_CHARS, string, text_value

CALL_KEYS = ("tool_call", "tool_calls")
TEXT_KEYS = ("response", "content")
CALLS = JsonCalls()


@dataclass(frozen=True)
class Envelope:
    """See the module. Stands at the answer's beginning."""

    openers: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()

    def read(self, scene: Scene, after: Words) -> Reading[None]:
        """See `CallFormat.read`."""
        cursor = scene.cursor
        if (yield from cursor.peek()) != "{":
            raise NotThisError
        cursor.take()
        if (yield from space(cursor)) != '"':
            raise NotThisError
        cursor.take()
        key = yield from text_value(cursor, JSON, '"', MAX_KEY_CHARS)
        if (yield from space(cursor)) != ":":
            raise NotThisError
        cursor.take()
        char = yield from space(cursor)
        if key in CALL_KEYS:
            yield from CALLS.read(scene, after)
        elif key in TEXT_KEYS and char == '"':
            cursor.take()
            yield from self._text(scene)
        else:
            raise NotThisError
        yield from scene.attempt(self._close(scene))

    def _text(self, scene: Scene) -> Reading[None]:
        """The text of the answer, out of its quotes."""
        scene.cursor.settle()
        unquoted = _Unquoted(scene)
        try:
            yield from string(scene.cursor, JSON, '"', unquoted.add)
        except NotThisError:
            return  # the answer was cut inside its text

    def _close(self, scene: Scene) -> Reading[None]:
        if (yield from space(scene.cursor)) != "}":
            raise NotThisError
        scene.cursor.take()


class _Unquoted:
    """Pieces of a JSON string back to text; halves of a character wait for each other."""

    def __init__(self, scene: Scene) -> None:
        self._write = scene.writer.text
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")

    def add(self, piece: str) -> None:
        """Take a piece in; an escape comes as one piece, so a quote is an end of the string."""
        text = "" if piece == '"' else str(json.loads(f'"{piece}"'))
        halves = text.encode("utf-16-le", "surrogatepass")
        self._write(self._decoder.decode(halves, final=piece == '"'))
