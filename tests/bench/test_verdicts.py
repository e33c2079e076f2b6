"""Ratios are judged by their whole range."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.figures import Spread, ratio, spread
from tests.bench.making import figures, make_round
from tests.bench.rounds import Key, Round
from tests.bench.sides import ENGINE, LOOP, PEER, PRODUCT
from tests.bench.verdicts import REQUIREMENTS, Bound, Requirement, compare, judge

BOUND = Bound(goal=1.5, floor=1.0)
TPS = Requirement("distinct", "tps", "tokens/s", {4: BOUND})
STALL = next(r for r in REQUIREMENTS if r.figure == "itl_max" and r.workload == "distinct")
DECODE = next(r for r in REQUIREMENTS if r.figure == "decode_tps")


def rounds(figure: str, side: str, base: str, *pairs: tuple[float, float]) -> list[Round]:
    return [
        make_round(
            number,
            {
                Key("distinct", 4, side): figures(**{figure: ours}),
                Key("distinct", 4, base): figures(**{figure: theirs}),
            },
        )
        for number, (ours, theirs) in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    ("least", "median", "most", "verdict"),
    [
        (0.7, 0.8, 0.99, "MISSED"),
        (0.9, 1.6, 1.7, "not established"),
        (0.99, 1.0, 1.0, "not established"),
        (1.0, 1.2, 1.9, "below goal"),
        (1.0, 1.5, 1.9, "goal met"),
    ],
)
def test_verdicts(least: float, median: float, most: float, verdict: str) -> None:
    assert judge(Spread(median, least, most), BOUND) == verdict


def test_without_a_goal_the_floor_is_all_there_is_to_meet() -> None:
    assert judge(Spread(9.0, 1.0, 9.0), Bound(None, 1.0)) == "floor met"
    assert judge(Spread(0.9, 0.8, 0.9), Bound(None, 1.0)) == "MISSED"


@given(st.lists(st.floats(0.1, 10), min_size=1), st.floats(0.1, 10))
def test_a_better_run_is_never_judged_worse(values: list[float], factor: float) -> None:
    order = ["MISSED", "not established", "below goal", "goal met"]
    before = judge(spread(values), BOUND)
    after = judge(spread([value * max(factor, 1.0) for value in values]), BOUND)
    assert order.index(after) >= order.index(before)


def test_ratios_are_of_the_same_round() -> None:
    found = compare(TPS, 4, ENGINE, rounds("tps", ENGINE, PEER, (10, 5), (6, 6), (4, 1)), 200.0)
    assert found == Spread(median=2.0, least=1.0, most=4.0)


def test_rounds_that_lack_a_side_are_left_out() -> None:
    both = rounds("tps", ENGINE, PEER, (10, 5))
    alone = make_round(1, {Key("distinct", 4, ENGINE): figures(tps=1.0)})
    assert compare(TPS, 4, ENGINE, [*both, alone], 200.0) == Spread(2.0, 2.0, 2.0)
    assert compare(TPS, 4, ENGINE, [alone], 200.0) is None
    assert compare(TPS, 4, PRODUCT, both, 200.0) is None


def test_a_stall_is_compared_with_the_setting_that_bounds_it() -> None:
    found = compare(STALL, 4, PRODUCT, rounds("itl_max", PRODUCT, PEER, (100, 9), (400, 9)), 200.0)
    assert found == Spread(1.25, 0.5, 2.0)


def test_a_round_in_which_the_streams_never_all_decoded_says_nothing() -> None:
    measured = rounds("decode_tps", PRODUCT, LOOP, (90, 100), (0, 100))
    assert compare(DECODE, 4, PRODUCT, measured, 200.0) == Spread(0.9, 0.9, 0.9)


def test_a_share_of_nothing_can_be_compared() -> None:
    assert ratio("in_time", 0.5, 0.0) == math.inf
    assert ratio("in_time", 0.0, 0.0) == 1.0
    assert ratio("in_time", 0.0, 0.5) == 0.0
    assert ratio("itl_max", 0.0, 5.0) == math.inf


def test_every_requirement_names_a_figure_and_no_goal_below_its_floor() -> None:
    for requirement in REQUIREMENTS:
        assert isinstance(getattr(figures(), requirement.figure), float)
        for bound in requirement.bounds.values():
            assert bound.goal is None or bound.goal >= bound.floor
