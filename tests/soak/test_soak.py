"""A soak of seconds on the mock, and the judgement of what it sees."""

from __future__ import annotations

import dataclasses

import pytest

from inference.engine.constraints import ConstrainedSampler
from inference.protocol.events import Cancelled, Failed, Finished
from tests.soak.__main__ import soak_spec
from tests.soak.holdings import MockHoldings
from tests.soak.report import memory_change, problems, render
from tests.soak.soak import Plan, Run, Sample, is_expected, run

PLAN = Plan(soak_spec("mock"), seed=3, duration_s=5.0, interval_s=1.0)


def sample(minute: float, own: float) -> Sample:
    return Sample(60 * minute, 10, own + 100, own, 5, 1, 8, 20)


def test_seconds_of_everything_leave_nothing_behind() -> None:
    lines: list[str] = []
    found = run(PLAN, lines.append)
    assert found.problems == []
    assert len(lines) == len(found.samples) >= 3
    assert found.ends["finished (stop)"] + found.ends["finished (length)"] > 20
    assert found.peaks["chains"] > 0
    assert found.peaks["grammars"] > 0
    assert "| seed | 3 |" in render(found)


def test_what_is_held_by_nobody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grammar that nobody closes, and cells that the cache has lost sight of."""
    cells = MockHoldings.cells
    monkeypatch.setattr(ConstrainedSampler, "close", lambda sampler: sampler._inner.close())
    monkeypatch.setattr(MockHoldings, "cells", lambda *args: [n + 1 for n in cells(*args)])
    short = dataclasses.replace(PLAN, duration_s=2.0)
    found = run(short, lambda _line: None).problems
    assert any("'grammars': " in text for text in found)
    assert any(text.startswith("cells in use") for text in found)


@pytest.mark.parametrize(
    ("growth", "is_bad"), [(0.0, False), (0.2, False), (2.0, True), (-2.0, True)]
)
def test_memory_that_grows_is_a_problem(growth: float, is_bad: bool) -> None:
    """MiB a minute over 20, from 300."""
    samples = [sample(minute, 300 + growth * minute) for minute in range(20)]
    found = problems(Run(PLAN, samples))
    assert bool(found) == is_bad
    assert (memory_change(samples) > 0) == (growth > 0)


def test_a_warm_up_is_not_counted() -> None:
    samples = [sample(minute, 100 if minute < 5 else 300) for minute in range(20)]
    assert problems(Run(PLAN, samples)) == []


def test_too_few_samples_say_nothing() -> None:
    assert problems(Run(PLAN, [sample(0, 300)])) != []


def test_only_some_ends_are_expected() -> None:
    assert is_expected(Finished("stop"), was_cancelled=False)
    assert is_expected(Failed("context_length_exceeded", ""), was_cancelled=False)
    assert is_expected(Cancelled("user"), was_cancelled=True)
    assert not is_expected(Cancelled("user"), was_cancelled=False)
    assert not is_expected(Failed("engine_failed", ""), was_cancelled=False)
    assert not is_expected(None, was_cancelled=True)
