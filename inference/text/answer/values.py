"""Values of arguments, read in a model's notation and written as JSON while they are read.

JSON itself passes through as it stands, but for what models get wrong in it: line ends and other
control characters inside strings, escapes that JSON doesn't have, a comma too many at the end.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from inference.text.answer.cursor import (
    SPACE,
    Cursor,
    NotThisError,
    Reading,
    Take,
    Words,
    runs,
    space,
    word,
    words,
)
from inference.text.depth import MAX_DEPTH

MAX_LITERAL_CHARS = 512
MAX_KEY_CHARS = 512
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
LITERAL = re.compile(r"[^\s,:\[\]{}()=\"']+")
BARE_VALUE = re.compile(r"[^,\[\]{}<]+")
BARE_KEY = re.compile(r"[^:,\[\]{}<]+")
PLAIN_ESCAPES = '"\\/bfnrt'
HEX = frozenset("0123456789abcdefABCDEF")
JSON_CONSTANTS = {"true": "true", "false": "false", "null": "null"}
PYTHON_CONSTANTS = {"True": "true", "False": "false", "None": "null", **JSON_CONSTANTS}
CLOSING = {"{": "}", "[": "]", "(": ")"}

Item: TypeAlias = Callable[[Take], Reading[None]]


@dataclass(frozen=True)
class Notation:
    """How values are written: what strings stand between, whether a backslash escapes in them (it
    always does between double quotes), and whether keys, and strings too, may stand bare."""

    quotes: tuple[str, ...] = ('"',)
    escapes: bool = True
    bare: bool = False
    lists: str = "["
    constants: Mapping[str, str] = field(default_factory=lambda: JSON_CONSTANTS)

    def __post_init__(self) -> None:
        object.__setattr__(self, "opening", words(*self.quotes))

    opening: Words = field(init=False, repr=False, compare=False)

    @functools.cached_property
    def plain(self) -> Mapping[str, re.Pattern[str]]:
        """For each quote: characters that stand for themselves behind it, and in JSON too."""
        return {q: re.compile(rf'[^{re.escape(q[0])}"\\\x00-\x1f]+') for q in self.quotes}


JSON = Notation(constants=PYTHON_CONSTANTS)
PYTHON = Notation(quotes=("'", '"'), lists="[(", constants=PYTHON_CONSTANTS)
GEMMA = Notation(quotes=('<|"|>', '"'), escapes=False, bare=True)


def quoted(text: str) -> str:
    """`text` as a JSON string."""
    return json.dumps(text, ensure_ascii=False)


def value(cursor: Cursor, notation: Notation, take: Take, depth: int = 0) -> Reading[None]:
    """One value.

    Raises:
        NotThisError: it isn't one, it doesn't end, or it is nested more than `MAX_DEPTH` times.
    """
    char = yield from cursor.peek()
    if char == "{":
        yield from mapping(cursor, notation, take, depth)
    elif char and char in notation.lists:
        yield from _list(cursor, notation, take, depth)
    else:
        quote = yield from word(cursor, notation.opening)
        if quote:
            yield from string(cursor, notation, quote, take)
        else:
            yield from _literal(cursor, notation, take)


def mapping(cursor: Cursor, notation: Notation, take: Take, depth: int = 0) -> Reading[None]:
    """An object; raises as `value` does."""

    def item(take: Take) -> Reading[None]:
        yield from _key(cursor, notation, take)
        yield from runs(cursor, SPACE, take)
        if (yield from cursor.peek()) != ":":
            raise NotThisError
        take(cursor.take())
        yield from runs(cursor, SPACE, take)
        yield from value(cursor, notation, take, depth + 1)

    yield from _items(cursor, "{}", item, take, depth)


def _list(cursor: Cursor, notation: Notation, take: Take, depth: int) -> Reading[None]:
    def item(take: Take) -> Reading[None]:
        yield from value(cursor, notation, take, depth + 1)

    yield from _items(cursor, "[]", item, take, depth)


def _items(cursor: Cursor, brackets: str, item: Item, take: Take, depth: int) -> Reading[None]:
    """Items between brackets; a comma is written when the next item comes."""
    if depth >= MAX_DEPTH:
        raise NotThisError
    closing = CLOSING[cursor.take()]
    take(brackets[0])
    comma = ""
    while True:
        blanks: list[str] = []
        char = yield from runs(cursor, SPACE, blanks.append)
        if char == closing:
            take("".join(blanks))
            cursor.take()
            take(brackets[1])
            return
        take(comma)
        take("".join(blanks))
        yield from item(take)
        char = yield from runs(cursor, SPACE, take)
        if char == ",":
            cursor.take()
            comma = ","
        elif char != closing:
            raise NotThisError


def _key(cursor: Cursor, notation: Notation, take: Take) -> Reading[None]:
    quote = yield from word(cursor, notation.opening)
    if quote:
        yield from string(cursor, notation, quote, take)
        return
    if not notation.bare:
        raise NotThisError
    take(quoted((yield from _bounded(cursor, BARE_KEY, MAX_KEY_CHARS)).strip()))


def _literal(cursor: Cursor, notation: Notation, take: Take) -> Reading[None]:
    pattern = BARE_VALUE if notation.bare else LITERAL
    text = (yield from _bounded(cursor, pattern, MAX_LITERAL_CHARS)).strip()
    if text in notation.constants:
        take(notation.constants[text])
    elif NUMBER.fullmatch(text):
        take(text)
    elif notation.bare:
        take(quoted(text))
    else:
        raise NotThisError


def _bounded(cursor: Cursor, pattern: re.Pattern[str], bound: int) -> Reading[str]:
    """A run of 1 to `bound` characters."""
    held: list[str] = []
    mark = cursor.mark(bound)
    char = yield from runs(cursor, pattern, held.append)
    if not held or not char:
        raise NotThisError
    cursor.unmark(mark)
    return "".join(held)


def string(cursor: Cursor, notation: Notation, quote: str, take: Take) -> Reading[None]:
    """The rest of a string behind its opening quote; raises as `value` does."""
    plain, closing = notation.plain[quote], words(quote)
    take('"')
    while True:
        char = yield from runs(cursor, plain, take)
        if not char:
            raise NotThisError
        if char == quote[0] and (yield from word(cursor, closing)):
            take('"')
            return
        cursor.take()
        if char == "\\" and (notation.escapes or quote == '"'):
            if (after := cursor.now()) and after in PLAIN_ESCAPES:
                take(char + cursor.take())
            else:
                yield from _escape(cursor, take)
        else:
            take(quoted(char)[1:-1])


def _escape(cursor: Cursor, take: Take) -> Reading[None]:
    """What stands behind a backslash."""
    char = cursor.now() or (yield from cursor.peek())
    if not char:
        raise NotThisError
    if char == "'":
        take(cursor.take())
    elif char in PLAIN_ESCAPES:
        take("\\" + cursor.take())
    elif char == "u" or char == "x":
        cursor.take()
        digits = yield from _digits(cursor, 4 if char == "u" else 2)
        if len(digits) == (4 if char == "u" else 2):
            take("\\u" + digits.rjust(4, "0"))
        else:
            take("\\\\" + char + digits)
    else:
        take("\\\\")


def _digits(cursor: Cursor, most: int) -> Reading[str]:
    digits = ""
    while len(digits) < most and (yield from cursor.peek()) in HEX:
        digits += cursor.take()
    return digits


def text_value(cursor: Cursor, notation: Notation, quote: str, bound: int) -> Reading[str]:
    """A string of at most `bound` characters, as text; raises as `value` does."""
    held: list[str] = []
    mark = cursor.mark(bound)
    yield from string(cursor, notation, quote, held.append)
    cursor.unmark(mark)
    text = json.loads("".join(held))
    return str(text)


def whole_value(text: str, notation: Notation) -> str:
    """`text`, which is one value, as JSON.

    Raises:
        NotThisError: it isn't one.
    """
    cursor = Cursor()
    cursor.feed(text)
    cursor.close()
    held: list[str] = []

    def reading() -> Reading[None]:
        yield from space(cursor)
        yield from value(cursor, notation, held.append)
        if (yield from space(cursor)):
            raise NotThisError

    for _ in reading():
        raise AssertionError("a closed text has all there is")
    return "".join(held)
