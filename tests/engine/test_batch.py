"""The micro-batch rule, and that decode-only steps cost one pass."""

from __future__ import annotations

import pytest

from inference.engine.batch import count_ubatches
from inference.engine.gaps import PATIENCE_STEPS
from inference.protocol.events import Event
from inference.protocol.params import Limits
from tests.engine.driving import ask, collect, make_engine, run, text_of


@pytest.mark.parametrize(
    ("runs", "count"),
    [
        ([], 0),
        ([(0, 1)], 1),
        ([(0, 1), (1, 1), (2, 1)], 1),
        ([(0, 1), (2, 1)], 2),
        ([(0, 1), (1, 1), (3, 1), (4, 1), (6, 1)], 3),
        ([(0, 512)], 1),
        ([(0, 513)], 2),
        ([(0, 1), (1, 512)], 2),  # one prompt token rides with the decode row
        ([(0, 1), (1, 513)], 2),
        ([(0, 1), (1, 514)], 3),
        ([(0, 1), (2, 512)], 2),
        ([(0, 100), (1, 30)], 2),
        ([(0, 300), (1, 300)], 2),  # 256 of each, then the rest of each
    ],
)
def test_count(runs: list[tuple[int, int]], count: int) -> None:
    assert count_ubatches(runs, 512) == count


@pytest.mark.parametrize("num", [1, 3, 8])
def test_a_decode_only_step_with_dense_ids_is_one_pass(num: int) -> None:
    engine = make_engine("x" * 40, num_slots=8)
    for index in range(num):
        engine.add(ask(str(index), f"prompt {index}", owner=f"user:{index}"))
    seen = 0
    while engine.has_work:
        engine.step()
        if engine.last_step.num_prompt == 0 and engine.last_step.num_decode:
            assert engine.last_step.num_ubatches == 1
            seen += engine.last_step.num_decode == num
    assert seen > 30


def test_a_gap_that_stays_is_closed_by_moving_the_last_sequence() -> None:
    engine = make_engine("x" * 300, num_slots=6)
    for index in range(4):
        limits = Limits(max_tokens=5 if index in (0, 2) else 200)
        engine.add(ask(str(index), f"{index} prompt", owner=f"user:{index}", limits=limits))
    out: dict[str, list[Event]] = {}
    apart = 0
    while engine.has_work:
        collect(out, engine.step())
        apart += engine.last_step.num_prompt == 0 and engine.last_step.num_ubatches > 1
    assert apart <= 2 * PATIENCE_STEPS
    assert engine.stats()["cache_moves"] == 1  # ids 1 and 3 became 1 and 2
    assert [text_of(out[str(index)]) for index in range(4)] == [
        "x" * (5 if index in (0, 2) else 200) for index in range(4)
    ]


def test_a_gap_is_left_where_the_copy_costs_more_than_it_has_cost_so_far() -> None:
    engine = make_engine("x" * 300, num_slots=6)
    engine._pace.observe(num_prompt=100, num_decode=0, elapsed_s=0.1)
    engine._costs.observe_copies(1, 1e9)
    for index in range(3):
        limits = Limits(max_tokens=5 if index == 1 else 50)
        engine.add(ask(str(index), f"{index} prompt", owner=f"user:{index}", limits=limits))
    engine._pace.observe(num_prompt=0, num_decode=3, elapsed_s=0.01)
    run(engine)
    assert engine.stats()["cache_moves"] == 0


def test_new_work_fills_the_gap_and_makes_ids_dense_again() -> None:
    engine = make_engine("x" * 200, num_slots=6)
    for index in range(3):
        limits = Limits(max_tokens=5 if index == 1 else 150)
        engine.add(ask(str(index), f"{index} prompt", owner=f"user:{index}", limits=limits))
    while "1" in engine._active:
        engine.step()
    engine.step()
    assert engine.last_step.num_ubatches == 2  # ids 0 and 2
    engine.add(ask("new", "another", owner="user:9"))
    engine.step()
    engine.step()
    assert (engine.last_step.num_decode, engine.last_step.num_ubatches) == (3, 1)
    run(engine)
