"""The incremental parser of a model's answer.

Feed it the text as it comes; what it makes of the whole never depends on where the pieces were cut.
Text waits only while it may be the beginning of a marker, or white space next to one; a call's
beginning waits until its name is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from inference.protocol.events import FinishReason
from inference.text.answer.cursor import (
    SPACE,
    Cursor,
    NotThisError,
    Reading,
    runs,
    space,
    until,
    word,
    words,
)
from inference.text.answer.events import AnswerEvent, Text
from inference.text.answer.families import AnswerFormat, Section
from inference.text.answer.formats import CallFormat
from inference.text.answer.harmony import HarmonyReader
from inference.text.answer.reasoning_tags import ReasoningTags
from inference.text.answer.scene import Scene
from inference.text.answer.tools import Tool, Tools
from inference.text.answer.writer import Writer

WORD = "x"  # that no marker begins with
MAX_NOISE_CHARS = 512  # inside a section of calls, in front of a call


class AnswerParser:
    """Takes one answer apart. `make_id` gives ids to calls that have none of their own.

    `opened`: markup with which the prompt ended, such as `<think>`; see `AnswerFormat.opened_by`.
    `is_begun`: words stood behind it, and the answer goes on with them.
    """

    def __init__(
        self,
        format_: AnswerFormat,
        *,
        tools: Sequence[Tool] = (),
        make_id: Callable[[], str],
        opened: str = "",
        is_begun: bool = False,
    ) -> None:
        self._writer = Writer(make_id)
        self._cursor = Cursor()
        self._scene = Scene(self._cursor, self._writer, Tools.of(tools))
        reading = (
            HarmonyReader(self._scene).read()
            if format_.is_harmony
            else _AnswerReader(format_, self._scene).read()
        )
        self._reading: Reading[None] | None = reading
        self._unsaid = ""
        self.push(opened + WORD * is_begun)
        self._unsaid = "" if is_begun else opened

    @property
    def scanned(self) -> int:
        """Characters looked at so far, those read again included."""
        return self._cursor.scanned

    @property
    def is_thinking(self) -> bool:
        """Whether what comes next is reasoning, as far as that is certain."""
        return self._scene.is_thinking

    @property
    def is_calling(self) -> bool:
        """Whether what comes next is in a call between markers, or may be; reasoning that the call
        is made in goes on meanwhile."""
        return self._scene.is_calling

    @property
    def is_undecided(self) -> bool:
        """Whether the end of the text may be the beginning of a marker."""
        return bool(self._cursor.now())

    def push(self, text: str) -> list[AnswerEvent]:
        """What became certain with `text`."""
        if text:
            self._cursor.feed(text)
            self._go_on()
        return self._events()

    def finish(self, reason: FinishReason = "stop") -> list[AnswerEvent]:
        """What is left at the end. At a limit ("length"), a call that was only beginning is
        dropped; an open call always ends incomplete."""
        self._scene.cut = reason == "length"
        self._cursor.close()
        self._go_on()
        self._writer.finish()
        return self._events()

    def _events(self) -> list[AnswerEvent]:
        """The new events, without what the prompt said."""
        events = self._writer.taken()
        if events and self._unsaid:
            first, unsaid, self._unsaid = events[0], self._unsaid, ""
            if isinstance(first, Text) and first.text.startswith(unsaid):
                rest = first.text.removeprefix(unsaid)
                return [Text(rest), *events[1:]] if rest else events[1:]
        return events

    def _go_on(self) -> None:
        if self._reading is not None:
            try:
                next(self._reading)
            except StopIteration:
                self._reading = None


class _AnswerReader:
    """Reads an answer whose parts stand between markers."""

    def __init__(self, format_: AnswerFormat, scene: Scene) -> None:
        self._format = format_
        self._scene = scene
        self._cursor = scene.cursor
        self._writer = scene.writer
        self._at_beginning = True  # a call without an opener may stand here
        self._called = False  # so closers behind it are no text
        has_tools = bool(scene.tools.by_name)
        self._calls = format_.calls_by_opener if has_tools else {}
        self._bare_calls = format_.bare_calls if has_tools else ()
        self._sections = {s.opener: s for s in format_.sections} if has_tools else {}
        self._after = words(*self._calls, *self._sections, *format_.closers)
        reasoning = format_.reasoning
        markers = (*self._calls, *self._sections)
        tags = (reasoning.opener, reasoning.closer) if reasoning else ()
        self._text_words = words(*markers, *format_.closers, *format_.silent, *tags)
        inside = (*markers, *format_.closers) if format_.calls_in_reasoning else ()
        self._thought_words = words(*reasoning.ends, *inside) if reasoning else words()

    def read(self) -> Reading[None]:
        """The whole answer."""
        while True:
            if self._at_beginning and not self._scene.is_thinking:
                yield from self._read_bare()
            sink = self._writer.thought if self._scene.is_thinking else self._writer.text
            among = self._thought_words if self._scene.is_thinking else self._text_words
            found = yield from until(self._cursor, among, sink)
            if not found:
                return
            if not (yield from self._marker(found)):
                sink(found)

    def _read_bare(self) -> Reading[None]:
        """Calls without an opener, or none."""
        self._at_beginning = False
        if self._bare_calls:
            yield from runs(self._cursor, SPACE, self._writer.text)
        for format_ in self._bare_calls:
            if (yield from self._cursor.peek()) in ("{", "[") and (
                yield from self._scene.attempt(format_.read(self._scene, self._after))
            ):
                yield from self._behind_call()
                return

    def _behind_call(self) -> Reading[None]:
        """Read what closes a call, and white space in front of it."""
        self._at_beginning = self._called = True
        self._writer.markup()
        while (yield from self._scene.attempt(self._closer(), MAX_NOISE_CHARS)):
            pass

    def _closer(self) -> Reading[None]:
        yield from space(self._cursor)
        if (yield from word(self._cursor, words(*self._format.closers))):
            return
        rest = yield from self._cursor.tail(self._after.most)
        if not self._scene.cut or rest not in self._after.beginnings:
            raise NotThisError
        self._cursor.take(len(rest))  # the answer was cut inside a marker

    def _marker(self, found: str) -> Reading[bool]:
        """Act on a marker; False: it is text."""
        form, reasoning = self._format, self._format.reasoning
        if form.text_is_all and self._writer.has_text:
            return False
        if reasoning and self._ends_reasoning(reasoning, found):
            self._scene.is_thinking, self._at_beginning = False, True
            self._writer.markup()
            return True
        if reasoning and found == reasoning.opener and not self._scene.is_thinking:
            if self._writer.has_text and not reasoning.anywhere:
                return False
            self._scene.is_thinking = True
            self._writer.begin_thoughts()
            return True
        if found in self._sections or found in self._calls:
            self._scene.is_calling = True
            is_call = yield from (
                self._section(self._sections[found])
                if found in self._sections
                else self._call(self._calls[found])
            )
            self._scene.is_calling = False
            return is_call
        if found in form.silent or (self._called and found in form.closers):
            self._writer.markup()
            return True
        return False

    def _ends_reasoning(self, reasoning: ReasoningTags, found: str) -> bool:
        """Whether `found` closes reasoning, or could have if somebody had opened it."""
        if self._scene.is_thinking:
            return found in reasoning.ends
        return found == reasoning.closer and not self._writer.has_text

    def _call(self, formats: Sequence[CallFormat]) -> Reading[bool]:
        for format_ in formats:
            if (yield from self._scene.attempt(format_.read(self._scene, self._after))):
                yield from self._behind_call()
                return True
        return (yield from self._cut_off())

    def _section(self, section: Section) -> Reading[bool]:
        """Calls between a section's markers; what else stands in front of them there is noise."""
        num_calls = self._writer.num_calls
        if not (yield from self._scene.attempt(self._next_in(section, section.noisy))):
            return (yield from self._cut_off())
        while self._writer.num_calls > num_calls:
            num_calls = self._writer.num_calls
            yield from self._scene.attempt(self._next_in(section))
        yield from self._behind_call()
        return True

    def _next_in(self, section: Section, may_end: bool = True) -> Reading[None]:
        """The next call of a section, or its end."""
        noise: list[str] = []
        mark = self._cursor.mark(MAX_NOISE_CHARS)
        among = words(*self._calls, *self._format.closers, section.closer)
        found = ""
        while found != section.closer and found not in self._calls:
            if section.noisy:
                found = yield from until(self._cursor, among, noise.append)
            else:
                yield from space(self._cursor)
                found = yield from word(self._cursor, among)
            if not found:
                raise NotThisError
        self._cursor.unmark(mark)
        if found == section.closer and may_end and not "".join(noise).strip():
            return
        for format_ in self._calls.get(found, ()):  # none behind the closer
            if (yield from self._scene.attempt(format_.read(self._scene, self._after))):
                return
        raise NotThisError

    def _cut_off(self) -> Reading[bool]:
        """Whether a call was beginning when the answer was cut: what there is of it is dropped."""
        if not self._scene.cut or not self._cursor.starved:
            return False
        while (yield from self._cursor.peek()):
            self._cursor.take()
        return True
