"""Answers of owned generations survive the death of any process, byte for byte."""

from __future__ import annotations

import pytest

from tests.faults import schedule
from tests.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]

SEEDS = [1, 2, 3]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seeded_schedule_of_kills(stack: Stack, seed: int) -> None:
    assert schedule.run(stack, seed) == []
