"""The table of the cases is whole: each is shown in every family that can say it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.edge.cases import test_keys, test_p_cases, test_s_cases, test_t_cases
from tests.edge.cases.families import BY_NAME
from tests.edge.cases.table import CASES, ELSEWHERE, LONGER_TOKENS

TESTS = Path(__file__).parents[2]
NUMBER = r"(?:[PST]\d\d|C1[24])"
LIST = re.compile(rf"(?:Case )?({NUMBER}(?:, {NUMBER})*)[:.]")
ANYWHERE = re.compile(r"\b[pPsStT][01]\d(?=_|\b)")


def shown() -> Iterator[tuple[str, str]]:
    """Number and family of every test here, by its docstring and its parameters."""
    for module in (test_keys, test_p_cases, test_s_cases, test_t_cases):
        for test in _tests(module):
            numbers = LIST.match(test.__doc__ or "")
            assert numbers, f"{test.__name__} names no case"
            for number in numbers[1].split(", "):
                yield from ((number, family) for family in _families(test))


def _tests(module: ModuleType) -> Iterator[Any]:
    return (value for name, value in vars(module).items() if name.startswith("test_"))


def _families(test: Any) -> list[str]:
    marks = (mark for mark in getattr(test, "pytestmark", ()) if mark.args[:1] == ("family",))
    return [family.name for mark in marks for family in mark.args[1]]


def test_every_case_is_shown_by_every_family_that_can_say_it() -> None:
    found = set(shown())
    wanted = {
        (number, name) for number, silent in CASES.items() for name in BY_NAME if name not in silent
    }
    assert found == wanted


def test_who_can_not_say_a_case_is_known_and_has_a_reason() -> None:
    for silent in CASES.values():
        assert set(silent) <= set(BY_NAME)
        assert all(silent.values())


def test_no_test_names_a_case_that_is_not_in_the_table() -> None:
    texts = (path.read_text() for path in TESTS.rglob("test_*.py"))
    named = {number.upper() for text in texts for number in ANYWHERE.findall(text)}
    assert named == set(CASES)


def test_cases_of_the_product_are_where_the_table_says() -> None:
    for number, place in ELSEWHERE.items():
        text = (TESTS.parent / place).read_text()
        assert re.search(rf'"""(?:Case )?{number}[:.]', text), place


def test_cases_of_longer_tokens_are_where_the_table_says() -> None:
    for number, places in LONGER_TOKENS.items():
        for place in places:
            assert re.search(rf"\b{number}\b", (TESTS.parent / place).read_text()), place
