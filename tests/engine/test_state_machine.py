"""Random lives over engines on every kind of memory, see `machine`."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from hypothesis import Phase, settings

from inference.engine.batch import count_ubatches
from tests.engine.machine import CONFIG, EngineMachine

KINDS = {"arrivals", "cancels", "adapters", "failures", "no room", "restarts"}


class CheckedMachine(EngineMachine):
    """Every reused prefix is computed again and compared."""

    config = dataclasses.replace(CONFIG, verify_cache=True)


class WindowMachine(EngineMachine):
    """Cells behind a sliding window are gone."""

    backend_fields: ClassVar[dict[str, Any]] = {"window_len": 10}


class UnifiedMachine(EngineMachine):
    """All slots share one pool of cells; whoever asked last may have to go."""

    backend_fields: ClassVar[dict[str, Any]] = {"is_unified": True}

    def nobody_starves(self) -> None:
        """A prompt waits for room as long as others use it."""


class RecurrentMachine(EngineMachine):
    """A sequence goes on from the end of another only."""

    backend_fields: ClassVar[dict[str, Any]] = {"is_recurrent": True}


# A failure is told at once, with what repeats it: to look for a smaller one would take minutes.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
SETTINGS = settings(
    max_examples=40, stateful_step_count=40, deadline=None, print_blob=True, phases=PHASES
)
FEWER = settings(SETTINGS, max_examples=15)
EngineMachine.TestCase.settings = SETTINGS
CheckedMachine.TestCase.settings = FEWER
WindowMachine.TestCase.settings = FEWER
RecurrentMachine.TestCase.settings = FEWER
UnifiedMachine.TestCase.settings = FEWER
TestCheckedMachine = CheckedMachine.TestCase
TestWindowMachine = WindowMachine.TestCase
TestRecurrentMachine = RecurrentMachine.TestCase
TestUnifiedMachine = UnifiedMachine.TestCase


class TestEngineMachine(EngineMachine.TestCase):  # type: ignore[misc, name-defined]
    """The plain one; it shows that everything it is for happened."""

    @classmethod
    def tearDownClass(cls) -> None:
        missing = KINDS - EngineMachine.driven.keys()
        assert not missing, f"never happened: {missing}"


def test_the_count_is_bounded_by_the_rows() -> None:
    assert count_ubatches([(0, 3), (2, 3)], 1) == 6
