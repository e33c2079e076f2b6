"""Batching, reuse and eviction change nothing that is said, see `equality`.

Here with a part of the prompts and modes, and kernels that round alike; `make equality` takes all,
and the settings that people use.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.model.equality import MODES, NEAR_TIE, Mode, Subject, check_mode, exact_spec
from tests.model.equality_prompts import FEW

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

MAX_TOKENS = 12
SOME_MODES = [mode for mode in MODES if mode.ram_mib or not mode.reuse]


@pytest.fixture(scope="module", params=["starter", "gemma"])
def subject(request: pytest.FixtureRequest) -> Subject:
    return Subject(exact_spec(request.param), FEW, MAX_TOKENS)


@pytest.mark.parametrize("mode", SOME_MODES, ids=lambda mode: mode.name)
def test_every_mode_says_what_a_plain_run_says(
    subject: Subject, mode: Mode, record_property: Callable[[str, object], None]
) -> None:
    outcome = subject.compare(mode)
    record_property("divergences", outcome.divergences)
    check_mode(mode, outcome)
    assert outcome.num_answers == mode.num_turns * len(FEW)
    assert [item for item in outcome.divergences if item.gap >= NEAR_TIE] == []
