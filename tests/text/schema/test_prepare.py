"""A schema keyword by keyword: enforced, passed over where it says nothing, or refused by path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference.text.schema.prepare import MAX_NODES, MAX_READ_CHARS, prepare
from llamaweb.lib.errors import InvalidError

AT = "response_format.json_schema.schema"


def prepared(schema: Any) -> Any:
    return json.loads(prepare(schema, param=AT).text())


def refused_at(schema: Any) -> str:
    with pytest.raises(InvalidError) as caught:
        prepare(schema, param=AT)
    assert caught.value.param is not None
    return caught.value.param.removeprefix(AT)


REFUSED: list[tuple[Any, str]] = [
    ({"not": {"type": "null"}}, ".not"),
    ({"if": {"minimum": 3}, "then": {"multipleOf": 2}}, ".if"),
    ({"type": "array", "contains": {"type": "null"}}, ".contains"),
    ({"type": "array", "uniqueItems": True}, ".uniqueItems"),
    ({"unevaluatedItems": False}, ".unevaluatedItems"),
    ({"unevaluatedProperties": {"type": "null"}}, ".unevaluatedProperties"),
    ({"propertyNames": {"maxLength": 3}}, ".propertyNames"),
    ({"dependentRequired": {"a": ["b"]}}, ".dependentRequired"),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, ".dependentSchemas"),
    ({"$dynamicRef": "#x"}, ".$dynamicRef"),
    ({"dependencies": {"a": ["b"]}}, ".dependencies"),
    ({"additionalItems": False}, ".additionalItems"),
    ({"items": [{"type": "null"}]}, ".items"),
    ({"properties": {"a": {"items": {"not": {}}}}}, ".properties.a.items.not"),
    ({"properties": {"a b": {"anyOf": [{}, {"not": {}}]}}}, '.properties["a b"].anyOf[1].not'),
    ({"minProperties": 2}, ".minProperties"),
    ({"type": "text"}, ".type"),
    ({"type": []}, ".type"),
    ({"enum": []}, ".enum"),
    ({"enum": [2**60]}, ".enum"),
    ({"const": {"a": [float("inf")]}}, ".const"),
    ({"maximum": 1e300}, ".maximum"),
    ({"minimum": "3"}, ".minimum"),
    ({"exclusiveMinimum": True}, ".exclusiveMinimum"),
    ({"multipleOf": 0}, ".multipleOf"),
    ({"multipleOf": 1e-300}, ".multipleOf"),
    ({"allOf": [{"multipleOf": 9973}, {"multipleOf": 9967}]}, ".allOf[1].multipleOf"),
    ({"maxLength": -1}, ".maxLength"),
    ({"minItems": 1.5}, ".minItems"),
    ({"maxItems": 2**40}, ".maxItems"),
    ({"required": "a"}, ".required"),
    ({"properties": []}, ".properties"),
    ({"properties": {"a": 3}}, ".properties.a"),
    ({"anyOf": []}, ".anyOf"),
    ({"anyOf": {}}, ".anyOf"),
    ({"format": "regex"}, ".format"),
    ({"format": ["date"]}, ".format"),
    ({"pattern": 3}, ".pattern"),
    ({"pattern": "a" * 5000}, ".pattern"),
    ({"patternProperties": {"[[a]": True}}, '.patternProperties["[[a]"]'),
    ({"$ref": "other.json#/a"}, ".$ref"),
    ({"$ref": "#name"}, ".$ref"),
    ({"$ref": "#/$defs/a"}, ".$ref"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"uniqueItems": True}}}, ".$defs.a.uniqueItems"),
    ({"$ref": "#/enum/x", "enum": [1]}, ".$ref"),
    ({"$schema": "http://json-schema.org/draft-04/schema#"}, ".$schema"),
    ({"allOf": [{"properties": {"a": {"pattern": c}}} for c in "abcdefg"]}, ".allOf"),
    ({"properties": {"é" * 300: {"not": {}}}}, '.properties["' + "é" * 200 + '…"].not'),
    ({"anyOf": [True] * (MAX_NODES + 1)}, ""),
]


@pytest.mark.parametrize(("schema", "path"), REFUSED)
def test_what_cannot_be_enforced_is_refused_with_its_path(schema: Any, path: str) -> None:
    assert refused_at(schema) == path


LARGE: list[Any] = [
    {"enum": list(range(5000))},
    {"const": "x" * 20_000},
    {"type": ["string", "null"] * 2000},
    {"required": ["name"] * 3000},
    {"pattern": "a" * 4000},
    {"properties": {"x" * 20_000: True}},
    {"word": 1, **{f"word{n}": 1 for n in range(5000)}},
]


@pytest.mark.parametrize("large", LARGE)
def test_what_is_referred_to_is_not_read_without_end(large: Any) -> None:
    schema = {"oneOf": [{"$ref": "#/$defs/a"}] * 500, "$defs": {"a": large}}
    with pytest.raises(InvalidError, match=f"more than {MAX_READ_CHARS} characters") as caught:
        prepare(schema, param=AT)
    assert caught.value.param == f"{AT}.$defs.a"
    prepare({**schema, "oneOf": schema["oneOf"][:5]}, param=AT)
    prepare({"anyOf": schema["oneOf"], "$defs": schema["$defs"]}, param=AT)


def test_words_that_say_nothing_may_be_long_wherever_they_are_read() -> None:
    wordy = {"type": "null", "description": "x" * 50_000}
    prepare({"oneOf": [{"$ref": "#/$defs/a"}] * 500, "$defs": {"a": wordy}}, param=AT)


@pytest.mark.parametrize("schema", [None, 3, "x", [], True])
def test_a_schema_is_an_object(schema: Any) -> None:
    assert refused_at(schema) == ""


@pytest.mark.parametrize(
    "schema",
    [
        {"title": "t", "description": "d", "default": 1, "examples": [1], "$comment": "c"},
        {"$id": "urn:x", "$anchor": "a", "$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"uniqueItems": False, "unevaluatedProperties": True, "propertyNames": {}, "not": False},
        {"then": {"not": {}}, "else": False, "minContains": 3, "dependentRequired": {}},
        {"discriminator": {"propertyName": "k"}, "x-order": 1, "readOnly": True},
        {"x-guidance": {"lenient": True, "whitespace_flexible": False}},
        {"$defs": {"unused": {"uniqueItems": True}}},
        {"format": "double"},
        {"type": None},
    ],
)
def test_what_says_nothing_of_the_value_is_passed_over(schema: Any) -> None:
    assert prepared({"properties": {"a": schema}}) == {"properties": {"a": {}}}


def test_an_empty_schema_asks_for_an_object() -> None:
    assert prepared({}) == prepared({"title": "T"}) == {"type": "object"}


def test_references_lead_to_definitions() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/properties/b%20c/items", "minimum": 1},
            "b c": {"type": "array", "items": {"type": "integer"}},
            "d": {"$ref": "#"},
        },
    }
    out = prepared(schema)
    assert out["properties"]["a"] == {"$ref": "#/$defs/d0", "minimum": 1}
    assert out["properties"]["d"] == {"$ref": "#/$defs/d1"}
    assert out["$defs"]["d0"] == {"type": "integer"}
    assert out["$defs"]["d1"] == {"type": "object", "properties": out["properties"]}


def test_alternatives_are_written_out_so_that_they_can_be_told_apart() -> None:
    a = {"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]}
    tree = {"oneOf": [{"$ref": "#/$defs/a", "title": "A"}, {"$ref": "#"}], "$defs": {"a": a}}
    out = prepared(tree)
    assert out["oneOf"][0] == a
    # The root stands in itself, once.
    assert out["oneOf"][1]["oneOf"] == [a, {"$ref": "#/$defs/d0"}]


@pytest.mark.parametrize(
    ("schema", "same"),
    [
        ({"minLength": 2.0}, {"minLength": 2}),
        ({"minimum": 2.0}, {"minimum": 2}),
        ({"type": ["null", "null"]}, {"type": ["null"]}),
        ({"minProperties": 2, "required": ["a", "b"]}, {"required": ["a", "b"]}),
        ({"allOf": [{}], "format": "int32"}, {"format": "int32", "allOf": [{}]}),
    ],
)
def test_the_same_in_other_words(schema: Any, same: Any) -> None:
    one, other = prepared(schema), prepared(same)
    assert sorted(one.pop("allOf", []), key=str) == sorted(other.pop("allOf", []), key=str)
    assert one == other


@pytest.mark.parametrize(
    "pattern",
    [r"^a\d+[^\]\-x]*$", r"(?:a|b){2,3}?\.", r"[a-z0-9_.-]", r"(?<n>a)|\/\\", r"[-a]", r"é\u00e9"],
)
def test_expressions_that_everybody_reads_alike(pattern: str) -> None:
    assert prepared({"pattern": pattern}) == {"pattern": pattern}


@pytest.mark.parametrize(
    "pattern",
    ["[a&&b]", "[a--b]", "[[a]]", "[]a]", "[^]", r"\Aa\z", r"(?i)a", r"\1", r"[\b]", "[a"],
)
def test_expressions_that_mean_something_else_elsewhere(pattern: str) -> None:
    assert refused_at({"pattern": pattern}) == ".pattern"


def test_inner_parts_come_before_those_around_them() -> None:
    schema = {"properties": {"a": {"items": {"$ref": "#/$defs/x"}}}, "$defs": {"x": {"minimum": 1}}}
    paths = [part.param.removeprefix(AT) for part in prepare(schema, param=AT).parts]
    assert paths == [".$defs.x", ".properties.a.items", ".properties.a", ""]


def test_paths_are_made_only_of_what_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.text.schema.prepare.path_of", None)  # can't be called
    one = {"type": "string", "minLength": 1, "pattern": "a+", "enum": ["a"]}
    two = {"minimum": 1, "multipleOf": 2, "required": ["x"], "oneOf": [one, {"type": "null"}]}
    assert len(prepare({"properties": {"a": one, "b": two}}, param=AT).parts) > 5
