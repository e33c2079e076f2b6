"""Calls in Python's notation that a model begins by itself are held to the tools, too."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference.text.answer.families import FAMILIES
from inference.text.answer.tools import Tool
from tests.text.answer.test_forcing import CLOCK, WEATHER, parsed
from tests.text.answer.watched import Watched

ORDER = Tool(
    "order",
    {
        "type": "object",
        "properties": {
            "item": {"enum": ["tea", "it's", None, 3]},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
            "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
            "note": {"type": ["string", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "to": {
                "type": "object",
                "properties": {"zip": {"type": "integer"}, "fast": {"type": "boolean"}},
                "required": ["zip"],
                "additionalProperties": False,
            },
            "more": {"type": "object"},
            "place": {"$ref": "#/$defs/place"},
        },
        "required": ["item", "count"],
        "$defs": {"place": {"enum": ["here", "there"]}},
    },
)
PYTHON = [
    ("item='tea', count=1", {"item": "tea", "count": 1}),
    ('item="it\'s", count=9', {"item": "it's", "count": 9}),
    ("item='it\\'s', count=9", {"item": "it's", "count": 9}),
    ('item=None, count=2, code="AB"', {"item": None, "count": 2, "code": "AB"}),
    ("item=3, count=2, note=None", {"item": 3, "count": 2, "note": None}),
    ("item=3, count=2, note='漢\\n'", {"item": 3, "count": 2, "note": "漢\n"}),
    ("item=3, count=2, tags=['a', \"b\"]", {"item": 3, "count": 2, "tags": ["a", "b"]}),
    ("item=3, count=2, tags=[]", {"item": 3, "count": 2, "tags": []}),
    ("item=3, count=2, to={'zip': 1}", {"item": 3, "count": 2, "to": {"zip": 1}}),
    (
        'item=3, count=2, to={"zip": 1, "fast": True}',
        {"item": 3, "count": 2, "to": {"zip": 1, "fast": True}},
    ),
    (
        "item=3, count=2, more={'a': [1.5, None, {'b': False}]}",
        {"item": 3, "count": 2, "more": {"a": [1.5, None, {"b": False}]}},
    ),
    ('item=3, count=2, place="here"', {"item": 3, "count": 2, "place": "here"}),
]
NO_PYTHON = [
    *("", "item='tea'", "item='ale', count=1", "item='tea', count=0", "item='tea', count='1'"),
    *("count=1, item='tea', size=2", "item=3, count=2, code='abc'", "item=3, count=2, note=7"),
    *(
        "item=3, count=2, tags=['a', 'b', 'c']",
        "item=3, count=2, tags=[1]",
        "item=3, count=2, to={}",
    ),
    *(
        "item=3, count=2, to={'zip': 1, 'x': 2}",
        "item=3, count=2, place='nowhere'",
        "item=f(), count=1",
    ),
]
# family, what stands in front of a call's arguments and behind them
LISTS = [
    ("llama", "[order(", ")]"),
    ("llama", "<|python_tag|>order.call(", ")"),
    ("llama", "Now: <|python_tag|>[order(", ")]"),
    ("llama", "<|python_start|>[clock(), order(", ")]<|python_end|>"),
    ("lfm2", "<|tool_call_start|>[order(", "), clock()]<|tool_call_end|>"),
]


@pytest.mark.parametrize(("family", "front", "back"), LISTS)
@pytest.mark.parametrize(("arguments", "means"), PYTHON)
def test_calls_in_python_s_notation_are_held_to_the_schema(
    family: str, front: str, back: str, arguments: str, means: Any
) -> None:
    text, form = front + arguments + back, FAMILIES[family]
    watched = Watched(form, ORDER, CLOCK)
    assert watched.reads(text)
    assert watched.may_end
    calls = {call.name: call.arguments for call in parsed(text, form, ORDER, CLOCK).calls}
    assert json.loads(calls["order"]) == means


@pytest.mark.parametrize(("family", "front", "back"), LISTS)
@pytest.mark.parametrize("arguments", NO_PYTHON)
def test_no_other_arguments_in_python_s_notation(
    family: str, front: str, back: str, arguments: str
) -> None:
    assert not Watched(FAMILIES[family], ORDER, CLOCK).reads(front + arguments + back)


def test_a_list_without_a_tool_s_name_is_text() -> None:
    watched = Watched(FAMILIES["llama"], WEATHER)
    assert watched.reads('[1] is a note, [weather] a word and <|python_tag|>print("code")')
    assert watched.may_end


def test_pythonic_tools_without_parameters_or_schema() -> None:
    form = FAMILIES["lfm2"]
    for schema, given in ((None, "a=1, b=['x']"), ({"properties": {}}, ""), (None, "")):
        text = f"<|tool_call_start|>[f({given})]<|tool_call_end|>"
        assert Watched(form, Tool("f", schema)).reads(text)
