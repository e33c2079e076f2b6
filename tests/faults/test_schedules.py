"""Answers of owned generations survive the death of any process, byte for byte."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults import schedule
from tests.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]

SEEDS = [1, 2, 3]
DELAY_MS = "30"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    with Stack(
        tmp_path_factory.mktemp("faults"), env={"LLAMAWEB_MOCK_DELAY_MS": DELAY_MS}
    ) as stack:
        stack.wait_ready()
        yield stack


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seeded_schedule_of_kills(stack: Stack, seed: int) -> None:
    assert schedule.run(stack, seed) == []


@pytest.mark.slow
def test_many_seeded_schedules(tmp_path: Path) -> None:
    problems = []
    with Stack(tmp_path / "data", env={"LLAMAWEB_MOCK_DELAY_MS": DELAY_MS}) as stack:
        stack.wait_ready()
        first = int(os.environ.get("SEED", "1000"))
        for seed in range(first, first + int(os.environ.get("N", "50"))):
            found = schedule.run(stack, seed)
            print(f"seed {seed}: {found or 'ok'}", flush=True)
            problems += found
    assert problems == []
