"""The measurement of decoding under a schema, on the mock."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.bench import constrained, rounds
from tests.bench.__main__ import DOCS
from tests.bench.constrained import ConstrainedRun, Rates
from tests.generated import replaced

SPEC = rounds.engine_spec(rounds.Plan(1, (1, 2), (), "s", threads=1, engine_class="mock"))


def test_each_number_of_streams_has_its_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constrained, "NUM_TOKENS", 30)
    run = constrained.measure(SPEC, (1, 2), rounds=2, seed="s")
    cells = [(rates.sampling, rates.streams) for rates in run.rates]
    assert cells == [("greedy", 1), ("greedy", 2), ("sampled", 1), ("sampled", 2)]
    for rates in run.rates:
        assert len(rates.ratios) == 2
        assert min(*rates.free_tps, *rates.bound_tps) > 0
    assert constrained.render(run).count("\n| greedy") == 2


def test_ratios_are_of_one_round_and_judged_by_their_range() -> None:
    good = Rates("greedy", 1, [100.0, 50.0, 80.0], [95.0, 60.0, 76.0])
    bad = Rates("greedy", 8, [100.0, 50.0, 80.0], [80.0, 40.0, 70.0])
    text = constrained.render(ConstrainedRun(SPEC, [good, bad], [1.0, 1.0, 9.0]))
    assert "| greedy | 1 | 80.0 | 76.0 | 0.95 (0.95..1.20) | floor met |" in text
    assert "| greedy | 8 | 80.0 | 70.0 | 0.80 (0.80..0.88) | MISSED |" in text
    assert "**Provisional: 3 of the 5 rounds that a comparison needs.**" in text


def test_the_document_has_the_markers() -> None:
    assert "new" in replaced(DOCS.read_text("utf-8"), constrained.COMMAND, "new")


def test_the_schema_keeps_a_stream_going_for_longer_than_it_is_measured() -> None:
    people: Any = constrained.SCHEMA["properties"]["people"]  # type: ignore[index]
    shortest = json.dumps({"name": "", "age": 0, "email": "a@b", "tags": []})
    # No token of an ordinary vocabulary writes more than 8 bytes of it on average.
    assert people["minItems"] * len(shortest) / 8 > constrained.NUM_TOKENS
