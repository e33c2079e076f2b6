"""Which requests for vectors another server is asked, and when: an engine without its threads."""

from __future__ import annotations

from typing import Any

import pytest

from inference.engine.upstream.engine import UpstreamEngine
from inference.engine.upstream.trying import Call
from inference.engine.upstream.vectors import EMBED_PATH, VectorsAsked
from llamaweb.lib.clock import ManualClock


class Places(UpstreamEngine):
    """Has two, and only notes what it would ask in `asked`."""

    def __init__(self) -> None:
        super().__init__(None, None, ManualClock(), num_slots=2)  # type: ignore[arg-type]
        self.asked: list[str] = []

    def _start(self, call: Call) -> None:
        self._calls[call.generation_id] = call
        self.asked.append(call.generation_id)


@pytest.fixture
def engine() -> Places:
    """Two requests are asked and two wait."""
    made = Places()
    for name in "abcd":
        made.add(VectorsAsked(name, EMBED_PATH, {}, 9.0, 1, 1))
    assert made.asked == ["a", "b"]
    return made


def test_the_place_of_one_that_is_dropped_is_taken_in_the_next_step(engine: Places) -> None:
    assert not engine.has_work
    engine.drop("a")
    assert engine.has_work
    engine.step()
    assert engine.asked == ["a", "b", "c"]
    assert not engine.has_work


def test_at_the_end_nothing_that_waits_is_asked(engine: Places) -> None:
    for name in "abcd":
        engine.drop(name)
    assert engine.asked == ["a", "b"]
    assert engine.stats()["embed_waiting"] == 0


def test_the_heartbeat_counts_while_requests_come(engine: Places) -> None:
    class Joining:
        """While it is counted another one comes, as from the loop's thread."""

        @property
        def __class__(self) -> Any:
            engine._calls["later"] = object()  # type: ignore[assignment]
            return Joining

    engine._calls["joining"] = Joining()  # type: ignore[assignment]
    assert engine.stats()["embed_waiting"] == 4
