"""Text ends at a line that is indented less than asked for, wherever it is cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.protocol.params import Limits
from inference.text.indent import MinIndent
from tests.engine.driving import ask, finished, make_engine, run_one, text_of


def feed(least: int, pieces: list[str]) -> tuple[str, bool]:
    indent, shown = MinIndent(least), ""
    for piece in pieces:
        text, is_over = indent.push(piece)
        shown += text
        if is_over:
            return shown, True
    return shown, False


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a = 1\n  b\n  c\nd", "a = 1\n  b\n  c\n"),
        ("a\n b", "a\n "),
        ("a\n\t\tb\n", "a\n\t\tb\n"),
        ("a\n\n  b", "a\n"),  # a blank line
        ("no second line", "no second line"),
        ("x\n    ", "x\n    "),
    ],
)
def test_the_first_line_with_less_ends_it(text: str, shown: str) -> None:
    assert feed(2, [text]) == (shown, shown != text)


@given(st.text("a \t\n", max_size=30), st.integers(1, 4), st.lists(st.integers(0, 30), max_size=8))
def test_the_cuts_never_matter(text: str, least: int, cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(bounds)]
    assert feed(least, pieces) == feed(least, [text])


def test_the_engine_ends_there_as_at_a_limit() -> None:
    limits = Limits(min_indent=2, stop=("never",))
    events = run_one(make_engine("f\n  g\nh\n  i"), ask("a", limits=limits))
    assert text_of(events) == "f\n  g\n"
    assert (finished(events).reason, finished(events).stop_string) == ("length", None)


def test_held_text_counts_when_it_is_given_out() -> None:
    events = run_one(
        make_engine("f\n  g\nn"), ask("a", limits=Limits(min_indent=2, stop=("\nno",)))
    )
    assert text_of(events) == "f\n  g\n"
    assert finished(events).reason == "length"
