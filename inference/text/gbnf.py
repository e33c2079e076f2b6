"""Grammars in GBNF, read and checked before llama.cpp sees them.

llama.cpp prints a grammar that it can't read to the process's standard error, overflows its stack
on deep ones and never returns from some that call themselves; so whatever gets past this module is
correct and bounded. The rules are the same; where counting exactly would mean copying llama.cpp's
internals, the count here is the higher one.
"""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Callable
from dataclasses import dataclass, field

from inference.text.gbnf_checks import check_rules
from inference.text.gbnf_tree import (
    ANY_CHAR,
    MAX_NESTING,
    ROOT,
    Chars,
    Element,
    Group,
    Options,
    Ref,
    TokenRef,
    grammar_error,
)
from llamaweb.lib.errors import InvalidError

MAX_GRAMMAR_CHARS = 64 * 1024
MAX_REPEATS = 2000  # of an element, times the rules in it
MAX_ELEMENTS = 100_000  # after repetitions are written out
_WORD = frozenset(string.ascii_letters + string.digits + "-")
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", **{c: c for c in '\\"[]-'}}
_HEX_LENGTHS = {"x": 2, "u": 4, "U": 8}
MAX_CODE_POINT = 0x10FFFF


_NOTHING = Group(((),))


def parse_gbnf(text: str, is_token: Callable[[str], bool]) -> dict[str, Options]:
    """The rules of a grammar by name. `is_token`: whether a text like "<think>" is one token.

    Raises:
        InvalidError: not a grammar, or over a bound; the message names the line, not the text.
    """
    if len(text) > MAX_GRAMMAR_CHARS:
        raise grammar_error(f"has {len(text)} characters, at most {MAX_GRAMMAR_CHARS} are allowed")
    rules = _Parser(text, is_token).parse()
    if ROOT not in rules:
        raise grammar_error(f"has no rule named '{ROOT}'")
    check_rules(rules)
    return rules


@dataclass(slots=True)
class _Cost:
    """What a stretch of a rule becomes in llama.cpp: `rules` made for it, `elements` in all."""

    rules: int = 0
    elements: int = 0


@dataclass(slots=True)
class _Parser:
    text: str
    is_token: Callable[[str], bool]
    pos: int = 0
    rules: dict[str, Options] = field(default_factory=dict)
    elements: int = 0

    def parse(self) -> dict[str, Options]:
        self._space(newlines=True)
        while self.pos < len(self.text):
            self._rule()
        return self.rules

    def _rule(self) -> None:
        name = self._name()
        if name in self.rules:  # llama.cpp keeps parts of both
            raise self._unexpected("a rule is defined twice")
        self._space()
        self._expect("::=")
        self._space(newlines=True)
        options, cost = self._options(depth=0)
        self.elements += cost.elements
        if self.elements > MAX_ELEMENTS:
            raise grammar_error(f"has more than {MAX_ELEMENTS} elements")
        self.rules[name] = options
        if self._peek() not in ("\r", "\n", ""):
            raise self._unexpected()
        self._space(newlines=True)

    def _options(self, depth: int) -> tuple[Options, _Cost]:
        if depth > MAX_NESTING:
            raise grammar_error(f"is nested more than {MAX_NESTING} levels deep")
        options = []
        total = _Cost()
        while True:
            sequence, cost = self._sequence(depth)
            options.append(sequence)
            total.rules += cost.rules
            total.elements += cost.elements + 1
            if self._peek() != "|":
                return tuple(options), total
            self.pos += 1
            self._space(newlines=True)

    def _sequence(self, depth: int) -> tuple[tuple[Element, ...], _Cost]:
        """Elements up to what can't be one, each with its repetitions."""
        out: list[Element] = []
        total = _Cost()
        while (found := self._element(depth)) is not None:
            element, cost = found
            self._space(newlines=depth > 0)
            times = max(1, cost.rules)
            while (bounds := self._repetition()) is not None:
                if element == _NOTHING:
                    raise self._unexpected()
                self._space(newlines=depth > 0)
                times *= max(1, bounds[0] if bounds[1] is None else bounds[1])
                if times > MAX_REPEATS:
                    raise grammar_error(f"repeats more than {MAX_REPEATS} rules")
                num_copies = max(bounds[0], bounds[1] or 0) + 1
                cost = _Cost(cost.rules + num_copies, (cost.elements + 2) * num_copies)
                element = _repeated(element, *bounds)
            out.append(element)
            total.rules += cost.rules
            total.elements += cost.elements
            if total.elements > MAX_ELEMENTS:
                raise grammar_error(f"has more than {MAX_ELEMENTS} elements")
        return tuple(out), total

    def _element(self, depth: int) -> tuple[Element, _Cost] | None:
        char = self._peek()
        if char == '"':
            chars = self._literal()
            return Group((chars,)), _Cost(0, len(chars))
        if char == "[":
            return self._char_class()
        if char in ("<", "!"):
            return self._token(), _Cost(0, 1)
        if char in _WORD:
            return Ref(self._name()), _Cost(1, 1)
        if char == ".":
            self.pos += 1
            return ANY_CHAR, _Cost(0, 1)
        if char != "(":
            return None
        self.pos += 1
        self._space(newlines=True)
        options, cost = self._options(depth + 1)
        self._expect(")")
        return Group(options), _Cost(cost.rules + 1, cost.elements + 1)

    def _literal(self) -> tuple[Chars, ...]:
        self.pos += 1
        chars = []
        while self._peek() != '"':
            code = self._char()
            chars.append(Chars(((code, code),)))
        self.pos += 1
        return tuple(chars)

    def _char_class(self) -> tuple[Chars, _Cost]:
        self.pos += 1
        negated = self._peek() == "^"
        self.pos += negated
        ranges = []
        while self._peek() != "]":
            first = last = self._char()
            if self._peek() == "-" and self._peek(1) != "]":
                self.pos += 1
                last = self._char()
            ranges.append((first, last))
        if not ranges:
            raise self._unexpected()
        self.pos += 1
        return Chars(tuple(ranges), negated), _Cost(0, 2 * len(ranges))

    def _token(self) -> TokenRef:
        negated = self._peek() == "!"
        self.pos += negated
        end = self.text.find(">", self.pos)
        token = self.text[self.pos : end + 1]
        if not token.startswith("<") or end < 0:
            raise self._unexpected()
        self.pos = end + 1
        if not token.startswith("<["):
            if not self.is_token(token):
                raise self._unexpected("there is no such token")
            return TokenRef(token, negated)
        digits = token[2:-2]
        if not token.endswith("]>") or not _is_number(digits) or int(digits) > 2**31 - 1:
            raise self._unexpected("there is no such token")
        return TokenRef(int(digits), negated)

    def _repetition(self) -> tuple[int, int | None] | None:
        """(least, most) of the repetition here; None if there is none."""
        char = self._peek()
        if char in ("*", "+", "?"):
            self.pos += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        if char != "{":
            return None
        self.pos += 1
        least = self._number()
        most: int | None = least
        if self._peek() == ",":
            self.pos += 1
            self._space()
            most = self._number() if self._peek().isdigit() else None
        self._expect("}")
        if least > MAX_REPEATS or (most is not None and not least <= most <= MAX_REPEATS):
            raise self._unexpected(f"repetitions must be ascending, {MAX_REPEATS} at most")
        return least, most

    def _number(self) -> int:
        self._space()
        start = self.pos
        while self._peek() and self._peek() in string.digits:
            self.pos += 1
        digits = self.text[start : self.pos]
        if not _is_number(digits):
            raise self._unexpected()
        self._space()
        return int(digits)

    def _name(self) -> str:
        start = self.pos
        while self._peek() and self._peek() in _WORD:
            self.pos += 1
        if start == self.pos:
            raise self._unexpected()
        return self.text[start : self.pos]

    def _char(self) -> int:
        char = self._peek()
        self.pos += 1
        if char == "":
            raise self._unexpected("it ends too early")
        if char != "\\":
            return ord(char)
        kind = self._peek()
        self.pos += 1
        if kind in _ESCAPES:
            return ord(_ESCAPES[kind])
        length = _HEX_LENGTHS.get(kind, 0)
        digits = self.text[self.pos : self.pos + length]
        self.pos += length
        if not length or len(digits) < length or not set(digits) <= set(string.hexdigits):
            raise self._unexpected("unknown escape")
        if int(digits, 16) > MAX_CODE_POINT:
            raise self._unexpected("there is no such character")
        return int(digits, 16)

    def _space(self, *, newlines: bool = False) -> None:
        skipped = " \t\r\n" if newlines else " \t"
        while (char := self._peek()) and (char in skipped or char == "#"):
            if char == "#":
                while self._peek() not in ("\r", "\n", ""):
                    self.pos += 1
            else:
                self.pos += 1

    def _expect(self, what: str) -> None:
        if not self.text.startswith(what, self.pos):
            raise self._unexpected()
        self.pos += len(what)

    def _peek(self, ahead: int = 0) -> str:
        char = self.text[self.pos + ahead : self.pos + ahead + 1]
        return "" if char == "\0" else char  # ends a text for llama.cpp

    def _unexpected(self, why: str = "unexpected character or end") -> InvalidError:
        line = self.text.count("\n", 0, self.pos) + 1
        return grammar_error(f"can't be read, line {line}: {why}")


def _is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdigit() and len(digits) < 11


def _repeated(element: Element, least: int, most: int | None) -> Group:
    if isinstance(element, Group) and (element.least, element.most) == (1, 1):
        return dataclasses.replace(element, least=least, most=most)
    return Group(((element,),), least, most)
