"""gpt-oss: an answer is a row of messages, each for a channel, some for a tool.

`<|channel|>analysis<|message|>…<|end|><|start|>assistant to=functions.f<|channel|>commentary
<|constrain|>json<|message|>{…}`. What is addressed to somebody who isn't there (a built-in tool)
is nobody's to read and is left out; a head that makes no sense counts as reasoning.
"""

from __future__ import annotations

import re

from inference.text.answer.cursor import (
    NotThisError,
    Reading,
    ahead,
    space,
    until,
    upto,
    word,
    words,
)
from inference.text.answer.scene import Scene
from inference.text.answer.tools import Tool
from inference.text.answer.values import JSON, mapping

START, CHANNEL, MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
END, RETURN, CALL, CONSTRAIN = "<|end|>", "<|return|>", "<|call|>", "<|constrain|>"
MARKERS = (START, CHANNEL, MESSAGE, END, RETURN, CALL, CONSTRAIN)
NEXT = START + "assistant"
THOUGHT, FINAL = f"{CHANNEL}analysis{MESSAGE}", f"{CHANNEL}final{MESSAGE}"
MAX_HEAD_CHARS = 256
RECIPIENT = re.compile(r"(?:^|\s)to=([^\s<]+)")
CHANNEL_NAME = re.compile(r"<\|channel\|>\s*(\w+)")
MARKUP = re.compile(r"<\|(?:channel|constrain|call)\|>")
NOBODY = frozenset({"assistant", "user", "all"})


class HarmonyReader:
    """Reads an answer that begins behind `<|start|>assistant`."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._head = ""  # of the message that is read
        self._has_body = False

    def read(self) -> Reading[None]:
        """The whole answer."""
        announced = False  # a marker was there, so that a head must follow
        while (yield from self._scene.cursor.peek()):
            if (yield from self._scene.attempt(self._read_head(), MAX_HEAD_CHARS)):
                if self._has_body:
                    yield from self._body()
                announced = not self._has_body
            elif announced and self._scene.cut and (yield from self._ends_here()):
                return
            else:
                found = yield from until(
                    self._scene.cursor, words(START, CHANNEL, END), self._scene.writer.text
                )
                announced = bool(found)

    def _ends_here(self) -> Reading[bool]:
        """Whether the answer was cut inside a head, which is left out then."""
        cursor = self._scene.cursor
        mark = cursor.mark(MAX_HEAD_CHARS)
        try:
            found = yield from until(cursor, words(MESSAGE), _leave_out)
        except NotThisError:
            found = MESSAGE
        if found:
            cursor.back(mark)
            return False
        cursor.unmark(mark)
        return True

    def _read_head(self) -> Reading[None]:
        """Everything up to a message's text, or up to where another head begins instead."""
        self._head, found = yield from upto(
            self._scene.cursor, words(MESSAGE, END, START, RETURN), MAX_HEAD_CHARS
        )
        self._has_body = found == MESSAGE
        if self._has_body:
            return
        text = MARKUP.sub("", self._head).removeprefix("assistant").strip()
        if text:
            if CHANNEL not in self._head:
                raise NotThisError
            self._scene.writer.begin_thoughts()
            self._scene.writer.thought(text)

    def _body(self) -> Reading[None]:
        writer = self._scene.writer
        recipient = RECIPIENT.search(self._head)
        channels = CHANNEL_NAME.findall(self._head)
        ends = words(END, RETURN, NEXT)
        if recipient and recipient[1] not in NOBODY:
            try:
                tool = self._scene.tools.find(recipient[1])
            except NotThisError:
                yield from until(self._scene.cursor, words(END, CALL, NEXT), _leave_out)
                return
            yield from self._call(tool)
        elif channels and channels[-1] == "analysis":
            writer.begin_thoughts()
            self._scene.is_thinking = True
            yield from until(self._scene.cursor, ends, writer.thought)
            self._scene.is_thinking = False
        else:
            writer.begin_text()
            yield from until(self._scene.cursor, ends, writer.text)
        writer.markup()

    def _call(self, tool: Tool) -> Reading[None]:
        cursor = self._scene.cursor
        ends = words(END, CALL, RETURN, NEXT)
        if not (yield from self._scene.attempt(self._arguments(tool))):
            self._scene.writer.begin_text()
            yield from until(cursor, ends, self._scene.writer.text)
            return
        yield from space(cursor)
        yield from word(cursor, ends)

    def _arguments(self, tool: Tool) -> Reading[None]:
        cursor, writer = self._scene.cursor, self._scene.writer
        char = yield from space(cursor)
        if char == "{":
            self._scene.begin(tool)
            yield from mapping(cursor, JSON, writer.arguments)
        elif (yield from ahead(cursor, words(END, CALL))):
            self._scene.begin(tool)
            writer.arguments("{}")
        else:
            raise NotThisError
        writer.end()


def _leave_out(_: str) -> None:
    """What nobody is to read."""
