"""What of a client's Lark grammar is refused before it is compiled."""

from __future__ import annotations

import contextlib

import pytest

from inference.text.lark import refuse_unbounded
from inference.text.schema.overlaps import MAX_MEETING
from llamaweb.lib.errors import InvalidError


def meeting(num: int) -> str:
    return " & ".join(["/a/"] * num)


@pytest.mark.parametrize(
    "text",
    [
        'start: %json {"type": "null"}',
        "start: %json\n{}",
        'start: %lark {\nstart: "a"\n}',
        f"start: A\nA: {meeting(MAX_MEETING + 1)}",
        f"start: {meeting(MAX_MEETING + 1)}",
        f"%llguidance {{}} A: {meeting(MAX_MEETING + 1)}\nstart: A",
        f"%ignore {meeting(MAX_MEETING + 1)}\nstart: B",
        f'start: <">\nA: {meeting(MAX_MEETING + 1)}\nB: "b"',
        f'start: A // "\nA: {meeting(MAX_MEETING + 1)} # "',
        f'start: A\nA: {meeting(4)} "x"\n  | {meeting(4)}',
        f"start: C\nA: {meeting(3)}\nB: {meeting(3)}\nC: A & B /x/",
        f"start: C\nC: A & A\nA: B & B\nB: {meeting(2)}",
        'start: A\nA: %regex {"substring_words": "a b"} ' + f"& {meeting(MAX_MEETING)} /b/",
        "start: A\nA: /a/ & B\nB: A",
    ],
)
def test_what_has_no_bound_is_refused(text: str) -> None:
    with pytest.raises(InvalidError) as caught:
        refuse_unbounded(text, param="structured_outputs.grammar")
    assert caught.value.param == "structured_outputs.grammar"


@pytest.mark.parametrize(
    "text",
    [
        "start: a*\na: A | b\nb: a",
        f"start: A\nA: {meeting(MAX_MEETING)}",
        f"start: A B\nA: {meeting(MAX_MEETING)}\nB: {meeting(MAX_MEETING)}",
        'start: NAME\nNAME: /[a-z]+/ & ~("if" | "else" | "a & b & c & d & e & f & g")',
        "start: A /&&&&&&&&/ // & & & & & & &\nA: /a/ & /b/",
        "A B & (((",
        "",
    ],
)
def test_others_are_for_the_compiler(text: str) -> None:
    refuse_unbounded(text, param="grammar")


@pytest.mark.parametrize("unit", ['"', "/", '"\\', "<", "A", "&", "\n", "A ", "A:B&", "%", "\\/"])
def test_long_ones_are_read_or_refused(unit: str) -> None:
    with contextlib.suppress(InvalidError):
        refuse_unbounded("&" + unit * (64 * 1024 // len(unit)), param="grammar")
