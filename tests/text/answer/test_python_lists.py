"""How many items a list has in Python's notation, of calls that a model begins by itself."""

from __future__ import annotations

from typing import Any

import pytest

from inference.text.answer.families import FAMILIES
from inference.text.answer.tools import Tool
from tests.text.answer.watched import Watched

BOUNDS: list[tuple[dict[str, int], set[int]]] = [
    ({}, {0, 1, 2, 3}),
    ({"maxItems": 0}, {0}),
    ({"maxItems": 1}, {0, 1}),
    ({"minItems": 1, "maxItems": 1}, {1}),
    ({"minItems": 1}, {1, 2, 3}),
    ({"minItems": 2, "maxItems": 2}, {2}),
    # What none can fulfil is left free.
    ({"minItems": 2, "maxItems": 1}, {0, 1, 2, 3}),
    ({"minItems": 1, "maxItems": 0}, {0, 1, 2, 3}),
]


@pytest.mark.parametrize(("bounds", "fit"), BOUNDS)
@pytest.mark.parametrize(
    ("family", "front", "back"),
    [("lfm2", "<|tool_call_start|>[f(", ")]<|tool_call_end|>"), ("llama", "[f(", ")]")],
)
def test_a_list_has_as_many_items_as_its_schema_allows(
    family: str, front: str, back: str, bounds: dict[str, int], fit: set[int]
) -> None:
    items: dict[str, Any] = {"type": "array", "items": {"type": "integer"}, **bounds}
    tool = Tool("f", {"properties": {"a": items, "b": {"type": "integer"}}})
    for count in range(4):
        call = f"{front}a={[7] * count}{back}"
        assert Watched(FAMILIES[family], tool).reads(call) == (count in fit), call
    for given, fits in (("b=7", True), ("b='7'", False)):  # beside it, nothing changes
        assert Watched(FAMILIES[family], tool).reads(f"{front}{given}{back}") == fits
