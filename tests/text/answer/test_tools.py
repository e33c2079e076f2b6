"""What bare text stands for, by a tool's schema; what a model writes instead of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.text.answer.cursor import NotThisError
from inference.text.answer.tools import Tool, Tools, ValueText, json_of, tools_of
from inference.text.answer.values import GEMMA, JSON, PYTHON, Notation, whole_value

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "maybe": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "open": {"anyOf": [{"type": "integer"}, {}]},
        "unit": {"enum": ["c", "f"]},
        "level": {"const": 3, "enum": None},
        "place": {"$ref": "#/$defs/place"},
        "loop": {"$ref": "#/$defs/loop"},
        "far": {"$ref": "https://example.com/schema"},
        "all": {"allOf": [{"type": "object"}, {"description": "x"}]},
        "free": {},
    },
    "$defs": {"place": {"type": "object"}, "loop": {"$ref": "#/$defs/loop"}},
}
TOOL = Tool("f", SCHEMA)


@pytest.mark.parametrize(
    ("parameter", "types"),
    [
        ("name", {"string"}),
        ("maybe", {"string", "null"}),
        ("either", {"integer", "null"}),
        ("open", set()),
        ("unit", {"string"}),
        ("level", {"integer"}),
        ("place", {"object"}),
        ("loop", set()),
        ("far", set()),
        ("all", {"object"}),
        ("free", set()),
        ("unknown", set()),
    ],
)
def test_a_schema_tells_the_types_of_a_parameter(parameter: str, types: set[str]) -> None:
    assert TOOL.types(parameter) == types


def ladder(word: str, last: Any, levels: int = 50) -> dict[str, Any]:
    """Definitions that each name the next one twice: 2 ** levels ways through them."""
    rungs = {f"d{n}": {word: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**rungs, f"d{levels}": last}}


LOOP = {"$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        (ladder("anyOf", {"type": "integer"}, 20), {"integer"}),
        (ladder("anyOf", {"type": "integer"}, 500), set()),
        (ladder("allOf", {}), set()),
        (ladder("anyOf", LOOP), set()),
        (ladder("anyOf", {"oneOf": [LOOP, LOOP, {"type": "string"}]}), set()),
        (ladder("allOf", {"allOf": [LOOP, {"type": "string"}]}, 20), {"string"}),
        ({"anyOf": [{"type": "null"}] * 100_000}, set()),
        ({"enum": ["x"] * 100_000}, set()),
    ],
)
def test_definitions_that_name_each_other_are_looked_at_once(
    schema: dict[str, Any], types: set[str]
) -> None:
    tool = Tool("f", {"properties": {"a": schema}, "$defs": schema.get("$defs", {})})
    assert tool.types("a") == types


@pytest.mark.parametrize("schema", [None, {}, {"properties": 3}, {"properties": {"a": 3}}])
def test_a_schema_that_tells_nothing_leaves_it_open(schema: Any) -> None:
    assert Tool("f", schema).types("a") == frozenset()


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        ("name", "7", "7"),
        ("name", "true", "true"),
        ("name", '{"a": 1}', '{"a": 1}'),
        ("name", " spaced ", " spaced "),
        ("count", " 7 ", 7),
        ("count", "123456789012345678901", 123456789012345678901),
        ("count", "seven", "seven"),
        ("maybe", "null", None),
        ("maybe", "None", None),
        ("maybe", "7", "7"),
        ("either", "5", 5),
        ("place", '{"x": 1}', {"x": 1}),
        ("place", "{'x': True, 'y': [None]}", {"x": True, "y": [None]}),
        ("place", "{broken", "{broken"),
        ("free", "007", "007"),
        ("free", "12.5", 12.5),
        ("free", "NaN", "NaN"),
        ("free", "False", False),
        ("free", "[" * 200 + "]" * 200, "[" * 200 + "]" * 200),
        ("free", "", ""),
    ],
)
def test_a_schema_decides_what_bare_text_is(parameter: str, text: str, value: Any) -> None:
    written = json.loads(json_of(text, TOOL.types(parameter)))

    assert written == value
    assert type(written) is type(value)


@given(st.text(), st.sampled_from(sorted(SCHEMA["properties"])), st.lists(st.integers(0, 40)))
def test_any_text_becomes_json_the_same_for_every_cutting(
    text: str, parameter: str, cuts: list[int]
) -> None:
    pieces: list[str] = []
    value = ValueText(TOOL.types(parameter), pieces.append)
    start = 0
    for end in (*sorted(cuts), len(text)):
        value.add(text[start:end])
        start = max(start, end)
    value.close()

    assert json.loads("".join(pieces)) == json.loads(json_of(text, TOOL.types(parameter)))


def test_a_value_too_long_to_wait_for_is_a_string() -> None:
    pieces: list[str] = []
    value = ValueText(frozenset({"array"}), pieces.append)
    for _ in range(20_000):
        value.add("[1],")

    assert pieces, "it comes while it is written"
    value.close()
    assert json.loads("".join(pieces)) == "[1]," * 20_000


@pytest.mark.parametrize(
    ("notation", "text", "value"),
    [
        (JSON, '{"a": "x\ny", "b": [1, 2,], "c": "it\\\'s \\d"}', ["x\ny", [1, 2], "it's \\d"]),
        (JSON, '{"a": True, "b": None, "c": "\\u00e9"}', [True, None, "é"]),
        (PYTHON, "{'a': 'it\\'s', 'b': (1, -2.5), 'c': \"say \\\"x\\\"\"}", None),
        (GEMMA, '{a:<|"|>q"\\<|"|>,b c:[1,null],d:true}', ['q"\\', [1, None], True]),
        (GEMMA, "{a:Paris, b:{}}", ["Paris", {}]),
    ],
)
def test_what_models_write_instead_of_json_becomes_json(
    notation: Notation, text: str, value: list[Any] | None
) -> None:
    got = json.loads(whole_value(text, notation))

    assert list(got.values()) == (value or ["it's", [1, -2.5], 'say "x"'])


@pytest.mark.parametrize(
    "text", ['{"a" 1}', '{"a": }', '{"a": 1', "{a: 1}", '{"a": 01}', '{"a": x}', "[" * 70]
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(NotThisError):
        whole_value(text, JSON)


_SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"))
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(_VALUES, max_size=3))
def test_json_passes_through_as_it_stands(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert whole_value(text, JSON) == text


def test_tools_are_found_by_the_names_that_models_use() -> None:
    tools = Tools.of([TOOL, Tool("f", None), Tool("functions.g")])

    assert tools.find("f") is TOOL
    assert tools.find("functions.f") is TOOL
    assert tools.find("f.call") is TOOL
    assert tools.find("functions.g").name == "functions.g"
    with pytest.raises(NotThisError):
        tools.find("g")


def test_definitions_that_are_none_are_left_out() -> None:
    definitions = [
        {"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}},
        {"name": "b"},
        {"function": 3},
        {"function": {"name": ""}},
        "c",
    ]

    assert [tool.name for tool in tools_of(definitions)] == ["a", "b"]
