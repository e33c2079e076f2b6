"""Reading text that arrives in pieces, with bounded steps back.

Readers are generators: `yield` means that more text is needed. What they read never depends on
where the pieces were cut, because they ask for a character or for a run of characters of a class,
never for what has arrived. A reader that may turn out to be wrong marks a place first; what it
takes from there is kept, up to a bound, and given back.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Generator, Iterable
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Reading: TypeAlias = Generator[None, None, T]
Take: TypeAlias = Callable[[str], None]

SPACE = re.compile(r"[ \t\r\n]+")
MAX_CACHED_WORDS = 512


class NotThisError(Exception):
    """What is read isn't what the reader is for; its text is to be read as something else."""


class Words:
    """Literal texts to look for; of two that begin alike the longer wins.

    `plain` matches a run of characters that begin none of them; `most`: length of the longest.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        longest_first = sorted({text for text in texts if text}, key=len, reverse=True)
        self.most = max(map(len, longest_first), default=0)
        self.heads = frozenset(text[0] for text in longest_first)
        self.beginnings = frozenset(t[:end] for t in longest_first for end in range(1, len(t)))
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        heads = "".join(map(re.escape, sorted(self.heads)))
        self.plain = re.compile(f"[^{heads}]+" if heads else r"[\s\S]+")

    def at(self, text: str) -> str:
        """The longest that `text` begins with, or ""."""
        found = self._pattern.match(text)
        return found[0] if found else ""


@functools.lru_cache(MAX_CACHED_WORDS)
def words(*texts: str) -> Words:
    """`Words` of these texts, made once."""
    return Words(texts)


class Cursor:
    """A place in the text. `scanned` counts characters looked at, those read again included."""

    def __init__(self) -> None:
        self._text = ""
        self._place = 0
        self._later: list[tuple[str, int]] = []  # what comes after `_text`, the last one first
        self._closed = False
        self._log: list[str] = []
        self._log_len = 0
        self._marks: list[tuple[int, int]] = []  # lengths of the log: at the mark, and at most
        self.scanned = 0
        self.starved = False  # somebody asked for more than there is

    def feed(self, text: str) -> None:
        """Text that arrived."""
        if self._has():
            self._later.insert(0, (text, 0))
        else:
            self._text, self._place = text, 0

    def close(self) -> None:
        """Nothing more will arrive."""
        self._closed = True

    def _has(self) -> bool:
        while self._place >= len(self._text):
            if not self._later:
                return False
            self._text, self._place = self._later.pop()
        return True

    def _took(self, piece: str) -> str:
        self.scanned += len(piece)
        if self._marks:
            self._log.append(piece)
            self._log_len += len(piece)
            if self._log_len > self._marks[-1][1]:
                raise NotThisError
        return piece

    def now(self) -> str:
        """The next character if it has arrived, else "": where `peek` would cost too much."""
        return self._text[self._place] if self._has() else ""

    def peek(self) -> Reading[str]:
        """The next character; "" at the end."""
        while not self._has():
            if self._closed:
                self.starved = True
                return ""
            yield
        return self._text[self._place]

    def tail(self, most: int) -> Reading[str]:
        """What stands here, as far as it has arrived, at most `most` characters of it; waits for
        the first one."""
        if not self._has():
            yield from self.peek()
        while len(self._text) - self._place < most and self._later:
            text, place = self._later.pop()
            short = self._text[self._place :]
            end = place + most - len(short)
            self._text, self._place = short + text[place:end], 0
            if end < len(text):
                self._later.append((text, end))
        tail = self._text[self._place : self._place + most]
        self.scanned += len(tail)
        return tail

    def more(self) -> Reading[bool]:
        """Wait for more text, though there is some; False at the end."""
        if self._closed:
            self.starved = True
            return False
        yield
        return True

    def take(self, length: int = 1) -> str:
        """So many characters that `peek` or `tail` showed."""
        self._place += length
        return self._took(self._text[self._place - length : self._place])

    def run(self, pattern: re.Pattern[str]) -> str:
        """A run that `pattern` matches here; perhaps only its beginning, "" for none.

        The pattern is one class of characters, repeated.
        """
        if not self._has():
            return ""
        end = len(self._text)
        if self._marks:  # a character beyond the bound is enough to know
            end = min(end, self._place + self._marks[-1][1] - self._log_len + 1)
        found = pattern.match(self._text, self._place, end)
        if found is None:
            self.scanned += 1
            return ""
        self._place = found.end()
        return self._took(found[0])

    def mark(self, bound: int) -> int:
        """Keep what is taken from here; more than `bound` characters raise `NotThisError`."""
        most = self._log_len + bound
        if self._marks:
            most = min(most, self._marks[-1][1])
        self._marks.append((self._log_len, most))
        return len(self._marks) - 1

    def unmark(self, mark: int) -> None:
        """What was taken since `mark` stays taken."""
        del self._marks[mark:]
        if not self._marks:
            self.settle()

    def settle(self) -> None:
        """Forget all marks: there is no way back from here."""
        self._marks.clear()
        self._log.clear()
        self._log_len = 0

    def back(self, mark: int) -> None:
        """Give back what was taken since `mark`."""
        start, _ = self._marks[mark]
        held: list[str] = []
        while self._log_len > start:
            held.append(self._log.pop())
            self._log_len -= len(held[-1])
        self.unmark(mark)
        if held:
            self._later.append((self._text, self._place))
            self._text, self._place = "".join(reversed(held)), 0


def runs(cursor: Cursor, pattern: re.Pattern[str], take: Take) -> Reading[str]:
    """Read a run to its end, piece by piece into `take`; returns the character behind it, "" at the
    end. The pattern is one class of characters, repeated."""
    while True:
        piece = cursor.run(pattern)
        if piece:
            take(piece)
            continue
        char = cursor.now() or (yield from cursor.peek())
        if not char or not pattern.match(char):
            return char


def space(cursor: Cursor) -> Reading[str]:
    """Skip white space; returns the character behind it, "" at the end."""
    return (yield from runs(cursor, SPACE, _drop))


def ahead(cursor: Cursor, among: Words) -> Reading[str]:
    """The longest of `among` that stands here, or ""; it stays to be read."""
    if (cursor.now() or (yield from cursor.peek())) not in among.heads:
        return ""
    tail = yield from cursor.tail(among.most)
    while tail in among.beginnings and (yield from cursor.more()):
        tail = yield from cursor.tail(among.most)
    return among.at(tail)


def word(cursor: Cursor, among: Words) -> Reading[str]:
    """As `ahead`, and reads it."""
    found = yield from ahead(cursor, among)
    return cursor.take(len(found)) if found else ""


def until(cursor: Cursor, among: Words, take: Take) -> Reading[str]:
    """Read up to one of `among` and over it, what stands before it piece by piece into `take`;
    returns the word, "" at the end."""
    while True:
        if not (yield from runs(cursor, among.plain, take)):
            return ""
        found = yield from word(cursor, among)
        if found:
            return found
        take(cursor.take())


def upto(cursor: Cursor, among: Words, bound: int) -> Reading[tuple[str, str]]:
    """What stands before one of `among`, and that word, both read.

    Raises:
        NotThisError: none comes within `bound` characters.
    """
    held: list[str] = []
    mark = cursor.mark(bound)
    found = yield from until(cursor, among, held.append)
    if not found:
        raise NotThisError
    cursor.unmark(mark)
    return "".join(held), found


def _drop(_: str) -> None:
    """White space that means nothing."""
