"""What a grammar in GBNF consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from llamaweb.lib.errors import InvalidError

MAX_NESTING = 64  # parentheses inside each other, and rules that begin with each other
ROOT = "root"


@dataclass(frozen=True, slots=True)
class Chars:
    """One character within (or, `negated`, outside) ranges of code points, both ends included."""

    ranges: tuple[tuple[int, int], ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class TokenRef:
    """One token (or, `negated`, any other one): by its text in angle brackets, or by its id."""

    token: int | str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Ref:
    """The rule with that name."""

    name: str


@dataclass(frozen=True, slots=True)
class Group:
    """One of `options`, at least `least` and at most `most` times (None: without end)."""

    options: tuple[tuple[Element, ...], ...]
    least: int = 1
    most: int | None = 1


Element: TypeAlias = Chars | TokenRef | Ref | Group
Options: TypeAlias = tuple[tuple[Element, ...], ...]
ANY_CHAR = Chars((), negated=True)


def grammar_error(what: str) -> InvalidError:
    """The refusal of a grammar; `what` follows "the grammar" and repeats nothing of it."""
    return InvalidError(f"the grammar {what}", param="grammar")
