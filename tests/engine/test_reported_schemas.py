"""Reported schemas: what comes is valid, or the request is refused by the keyword's path."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from inference.engine.guidance import compile_grammar
from inference.engine.mock_tokenizer import MockTokenizer
from llamaweb.lib.errors import InvalidError
from tests.engine.test_guided import of_schema, walk
from tests.text.schema.judge import faults

NUM_WALKS = 20
PLACE = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 3},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}
SCHEMAS: dict[str, tuple[Any, str | None]] = {
    "definitions and items": (
        {
            "type": "object",
            "properties": {
                "places": {"type": "array", "items": {"$ref": "#/$defs/place"}, "maxItems": 2}
            },
            "required": ["places"],
            "additionalProperties": False,
            "$defs": {"place": {**PLACE, "additionalProperties": False}},
        },
        None,
    ),
    "a tree": (TREE, None),
    "anyOf beside properties": (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            "additionalProperties": {"type": "boolean"},
        },
        None,
    ),
    "allOf": (
        {
            "allOf": [
                {**PLACE, "additionalProperties": False},
                {"properties": {"x": {"minimum": 3}}},
            ]
        },
        None,
    ),
    "allOf with what can't be": (
        {"allOf": [PLACE, {"propertyNames": {"pattern": "^x"}}]},
        ".allOf[1].propertyNames",
    ),
}
# What no compiler of expressions here can follow.
PATTERNS = ["(?=a)a", r"(a)\1", "(?<!a)b", "a{2,1}", "(", "[z-a]", r"\p{Nonsense}"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_s06_what_comes_is_valid_or_the_keyword_is_named(name: str) -> None:
    schema, path = SCHEMAS[name]
    rng = random.Random(name)
    if path is not None:
        with pytest.raises(InvalidError) as caught:
            compile_grammar(of_schema(schema), MockTokenizer())
        assert caught.value.param == f"json_schema{path}"
        return
    said = [walk(of_schema(schema), rng) for _ in range(NUM_WALKS)]
    whole = [text for text in said if text is not None]
    assert len(whole) > NUM_WALKS // 2
    for text in whole:
        assert faults(schema, json.loads(text)) == [], text


@pytest.mark.parametrize("pattern", PATTERNS)
def test_s05_a_pattern_that_can_not_be_read_is_refused(pattern: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    with pytest.raises(InvalidError) as caught:
        compile_grammar(of_schema(schema), MockTokenizer())
    assert caught.value.param == "json_schema.properties.a.pattern"
