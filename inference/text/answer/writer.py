"""From what readers find to events: white space around markup, ids, one open call.

White space next to markup separates and is no text: it is dropped at the answer's beginning and
end. Between words it stays, on both sides of the markup. So text waits only while it is blank.
"""

from __future__ import annotations

from collections.abc import Callable

from inference.text.answer.events import (
    AnswerEvent,
    CallArguments,
    CallEnd,
    CallStart,
    Reasoning,
    Text,
    joined,
)

BLANKS = " \t\r\n"
MAX_WAITING_CHARS = 256
BLOCK_SEPARATOR = "\n\n"  # between two pieces of reasoning, or two messages, of one answer


class _Flow:
    """Text of one kind: what may be shown of it so far."""

    def __init__(self, *, trimmed: bool) -> None:
        self.begun = False  # a word was shown
        self._waiting = ""  # white space that the next word will bring along
        self._trimmed = trimmed  # markup stood before the first word
        self._at_markup = trimmed  # markup stands next to the white space that waits

    def add(self, text: str) -> str:
        """Take `text` in; returns what can be shown now."""
        body = text.rstrip(BLANKS)
        shown = ""
        if body:
            shown, self._waiting = self._waiting + body, text[len(body) :]
            self._at_markup = False
        else:
            self._waiting += text
        if len(self._waiting) > MAX_WAITING_CHARS:
            shown += self._waiting[:-MAX_WAITING_CHARS]
            self._waiting = self._waiting[-MAX_WAITING_CHARS:]
        if not self.begun and self._trimmed:
            shown = shown.lstrip(BLANKS)
        self.begun = self.begun or bool(body)
        return shown

    def markup(self) -> None:
        """Something that isn't text stands here."""
        self._at_markup = True
        if not self.begun:
            self._trimmed, self._waiting = True, ""

    def separate(self) -> None:
        """Another piece begins, which must not run into this one."""
        if self.begun:
            self._waiting = BLOCK_SEPARATOR
        self._at_markup = True

    def end(self) -> str:
        """White space at the end, where no markup stands next to it."""
        shown = "" if self._at_markup else self._waiting
        self._waiting = ""
        return shown


class Writer:
    """Collects events; at most one call is open."""

    def __init__(self, make_id: Callable[[], str]) -> None:
        self._make_id = make_id
        self._events: list[AnswerEvent] = []
        self._text = _Flow(trimmed=False)
        self._thoughts = _Flow(trimmed=True)
        self._is_open = False
        self.num_calls = 0

    @property
    def has_text(self) -> bool:
        """Whether a word of text was written."""
        return self._text.begun

    def text(self, text: str) -> None:
        """Write text."""
        if shown := self._text.add(text):
            self._events.append(Text(shown))

    def thought(self, text: str) -> None:
        """Write reasoning."""
        if shown := self._thoughts.add(text):
            self._events.append(Reasoning(shown))

    def markup(self) -> None:
        """Markup was read; white space around it is no text."""
        self._text.markup()
        self._thoughts.markup()

    def begin_thoughts(self) -> None:
        """Another block of reasoning begins."""
        self.markup()
        self._thoughts.separate()

    def begin_text(self) -> None:
        """Another message begins."""
        self.markup()
        self._text.separate()

    def start(self, name: str, call_id: str = "") -> None:
        """Open a call."""
        self.markup()
        self._events.append(CallStart(self.num_calls, call_id or self._make_id(), name))
        self.num_calls += 1
        self._is_open = True

    def arguments(self, text: str) -> None:
        """Write a piece of the open call's arguments."""
        if text:
            self._events.append(CallArguments(self.num_calls - 1, text))

    def end(self, *, complete: bool = True) -> None:
        """Close the call, if one is open."""
        if self._is_open:
            self._events.append(CallEnd(self.num_calls - 1, complete))
            self._is_open = False

    def finish(self) -> None:
        """Nothing more comes."""
        self.end(complete=False)
        if shown := self._text.end():
            self._events.append(Text(shown))
        if shown := self._thoughts.end():
            self._events.append(Reasoning(shown))

    def taken(self) -> list[AnswerEvent]:
        """The events since the last time."""
        events, self._events = self._events, []
        return joined(events) if len(events) > 1 else events
