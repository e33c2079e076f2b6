"""Values of keywords, in the form in which the compiler of grammars keeps them exactly.

InvalidError says what is wrong with one; whoever asked knows where it stands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from inference.text.schema.formats import MAX_EXACT
from inference.text.schema.keywords import TYPES
from llamaweb.lib.errors import InvalidError

MAX_COUNT = 2**31 - 1
MAX_STEPS = 10_000  # that `multipleOf` counts before it begins again; each is a state of a machine


def types_of(value: Any) -> str | list[str]:
    """The value of `type`."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or any(name not in TYPES for name in names):
        raise InvalidError(f"must be one or several of {', '.join(TYPES)}")
    return value if isinstance(value, str) else list(dict.fromkeys(names))


def count_of(value: Any) -> int:
    """A length or a number of items."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or not 0 <= value <= MAX_COUNT:
        raise InvalidError(f"must be a whole number of 0 to {MAX_COUNT}")
    return value


def number_of(value: Any) -> int | float:
    """A bound of numbers."""
    if type(value) not in (int, float) or not _is_exact(value):
        raise InvalidError(f"must be a number within {MAX_EXACT} either way")
    return int(value) if float(value).is_integer() else float(value)


def are_few(multiples: Iterable[Decimal]) -> bool:
    """Whether numbers that are multiples of all of these can be told with `MAX_STEPS` states."""
    exact = [number.as_tuple() for number in multiples]
    exponents = [int(number.exponent) for number in exact]
    unit = min(0, *exponents)
    if unit < -12:
        return False
    common = 1
    for number, exponent in zip(exact, exponents, strict=True):
        digits = int("".join(map(str, number.digits)))
        common = math.lcm(common, digits * 10 ** (exponent - unit))
    return common <= MAX_STEPS


def names_of(value: Any) -> list[str]:
    """The value of `required`."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidError("must be a list of names")
    return list(dict.fromkeys(value))


def check_value(value: Any) -> None:
    """Refuse numbers that can't be told from their neighbours, anywhere in a constant.

    Raises:
        InvalidError: there is one.
    """
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            todo += item.values()
        elif isinstance(item, list):
            todo += item
        elif type(item) in (int, float) and not _is_exact(item):
            raise InvalidError(f"a number is beyond {MAX_EXACT}")


def _is_exact(number: int | float) -> bool:
    return math.isfinite(number) if abs(number) <= MAX_EXACT else False
