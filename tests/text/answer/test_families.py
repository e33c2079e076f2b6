"""Each family's way of writing, on answers of our own: tests/text/answer/cases.

A case's text is what the model writes behind the prompt; what isn't named in it (`content`,
`reasoning`, `calls`) must be empty. The cases hold for every cutting.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from inference.text.answer.events import whole
from inference.text.answer.families import FAMILIES
from tests.text.answer.answers import TOOLS, format_of, read

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
NUM_CUTTINGS = 5
MIN_CASES = 12
# What every family has an answer for, by the names of such cases.
KINDS = {
    "no call": ("no-call",),
    "one": ("one",),
    "parallel": ("parallel",),
    "no parameters": ("no-parameters",),
    "nested": ("nested",),
    "Unicode": ("unicode",),
    "quotes and line ends": ("quotes-and-lines",),
    "call after text": ("call-after-text",),
    "truncated": ("cut-in-arguments", "cut-in-the-name"),
    "malformed": ("malformed",),
    "look-alike": ("look-alike",),
}
# Where the template has reasoning; a draft is a call that isn't one.
OF_REASONING = ("call-inside-reasoning", "call-after-reasoning", "draft-inside-reasoning")


@dataclass(frozen=True)
class Case:
    """One answer and what it is made of."""

    template: str
    prompt: str
    told: dict[str, Any]


def _cases() -> list[Any]:
    found = []
    for path in CASES:
        told = json.loads(path.read_text("utf-8"))
        found += [
            pytest.param(
                Case(told["template"], told.get("prompt", ""), case),
                id=f"{path.stem}-{case['name']}",
            )
            for case in told["cases"]
        ]
    return found


@pytest.mark.parametrize("case", _cases())
def test_an_answer_is_taken_apart_the_same_for_every_cutting(case: Case) -> None:
    form = format_of(case.template)
    text, finish = case.told["text"], case.told.get("finish", "stop")
    opened = form.opened_by(case.prompt)

    events = read(form, text, tools=TOOLS, opened=opened, finish=finish)

    answer = whole(events)
    assert answer.text == case.told.get("content", "")
    assert answer.reasoning == case.told.get("reasoning", "")
    assert [call.name for call in answer.calls] == [c["name"] for c in case.told.get("calls", [])]
    for call, told in zip(answer.calls, case.told.get("calls", []), strict=True):
        assert call.complete == told.get("complete", True)
        got = json.loads(call.arguments) if call.complete else call.arguments
        assert got == told["arguments"]

    rng = random.Random(text)
    cuttings = [list(range(1, len(text)))]
    for _ in range(NUM_CUTTINGS):
        cuttings.append(
            sorted(rng.sample(range(len(text)), rng.randint(1, max(1, len(text) // 3))))
        )
    for cuts in cuttings:
        assert read(form, text, cuts, tools=TOOLS, opened=opened, finish=finish) == events


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_family_has_enough_cases(path: Path) -> None:
    told = json.loads(path.read_text("utf-8"))

    assert format_of(told["template"]).family == told["family"]
    assert len({case["name"] for case in told["cases"]}) >= MIN_CASES


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_family_has_cases_of_every_kind(path: Path) -> None:
    told = json.loads(path.read_text("utf-8"))
    form = format_of(told["template"])
    kinds = dict(KINDS)
    if form.reasoning_end:
        kinds["call inside or after reasoning"] = OF_REASONING
    counts = {
        kind: sum(case["name"] in names for case in told["cases"]) for kind, names in kinds.items()
    }
    assert not [kind for kind, num in counts.items() if not num], counts
    assert len(kinds) >= MIN_CASES - 1


def test_every_family_has_cases() -> None:
    assert {json.loads(path.read_text("utf-8"))["family"] for path in CASES} == set(FAMILIES)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_without_tools_everything_is_text(path: Path) -> None:
    told = json.loads(path.read_text("utf-8"))
    form = format_of(told["template"])

    for case in told["cases"]:
        opened = form.opened_by(told.get("prompt", ""))
        assert not whole(read(form, case["text"], opened=opened)).calls, case["name"]
