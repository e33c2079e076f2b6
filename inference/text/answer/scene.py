"""What the readers of one answer share."""

from __future__ import annotations

from inference.text.answer.cursor import Cursor, NotThisError, Reading
from inference.text.answer.tools import Tool, Tools
from inference.text.answer.writer import Writer

MAX_HELD_CHARS = 65_536  # of a call whose name comes behind its arguments
MAX_ID_CHARS = 64


class Scene:
    """The text, the events made of it, and the tools that may be called in it.

    `cut`: the answer ended at a limit, not because the model was done. `is_thinking`: what stands
    here is reasoning. `is_calling`: a call stands here, or what may be one.
    """

    def __init__(self, cursor: Cursor, writer: Writer, tools: Tools) -> None:
        self.cursor = cursor
        self.writer = writer
        self.tools = tools
        self.cut = False
        self.is_thinking = False
        self.is_calling = False

    def begin(self, tool: Tool, call_id: str = "") -> None:
        """A call is certain: what was read so far can't become text any more."""
        self.cursor.settle()
        usable = call_id.isascii() and call_id.isprintable() and len(call_id) <= MAX_ID_CHARS
        self.writer.start(tool.name, call_id if usable else "")

    def attempt(self, reading: Reading[None], bound: int = MAX_HELD_CHARS) -> Reading[bool]:
        """Try `reading`; False: it read something else, and all of it stands there again.

        A call that has begun can't be taken back: if it breaks, it ends incomplete.
        """
        num_calls = self.writer.num_calls
        mark = self.cursor.mark(bound)
        try:
            yield from reading
        except NotThisError:
            if self.writer.num_calls == num_calls:
                self.cursor.back(mark)
                return False
            self.cursor.settle()
            self.writer.end(complete=False)
            return True
        if self.writer.num_calls == num_calls:
            self.cursor.unmark(mark)
        return True
