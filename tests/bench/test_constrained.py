"""The measurement of decoding under a schema, on the mock."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.bench import constrained, rounds


def test_each_number_of_streams_has_its_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constrained, "NUM_TOKENS", 30)
    spec = rounds.engine_spec(rounds.Plan(1, (1, 2), (), "s", threads=1, engine_class="mock"))
    rates = constrained.measure(spec, (1, 2), rounds=2, seed="s")
    cells = [(rate.sampling, rate.streams) for rate in rates]
    assert cells == [("greedy", 1), ("greedy", 2), ("sampled", 1), ("sampled", 2)]
    assert all(rate.free_tps > 0 and rate.bound_tps > 0 and rate.ratio > 0 for rate in rates)
    assert constrained.render(rates).count("\n| greedy") == 2


def test_the_schema_keeps_a_stream_going_for_longer_than_it_is_measured() -> None:
    people: Any = constrained.SCHEMA["properties"]["people"]  # type: ignore[index]
    shortest = json.dumps({"name": "", "age": 0, "email": "a@b", "tags": []})
    # No token of an ordinary vocabulary writes more than 8 bytes of it on average.
    assert people["minItems"] * len(shortest) / 8 > constrained.NUM_TOKENS
