"""Every number of an engine is a documented metric."""

from __future__ import annotations

from inference.edge.engine_numbers import ENGINE_NUMBERS
from inference.engine.engine import Engine
from inference.engine.mock_backend import MockBackend


def test_the_table_is_what_an_engine_says() -> None:
    stats = Engine(MockBackend()).stats()
    assert [number.name for number in ENGINE_NUMBERS if number.name not in stats] == []
    assert sorted(stats) == sorted(number.name for number in ENGINE_NUMBERS)
    metrics = [number.instrument.name for number in ENGINE_NUMBERS]
    assert len(set(metrics)) == len(metrics)
    assert all(number.help.endswith(".") for number in ENGINE_NUMBERS)
