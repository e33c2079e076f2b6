"""A call that a model begins by itself is held to the tools from its first marker on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from inference.protocol.params import MAX_TRIGGERS
from inference.text.answer.families import FAMILIES, AnswerFormat
from inference.text.answer.forcing import awaited_grammar
from inference.text.answer.shapes import NAME, NUMBER, SHAPES
from inference.text.answer.tools import Tool
from tests.text.answer import test_forcing
from tests.text.answer.answers import TOOLS, format_of
from tests.text.answer.test_families import CASES as FIXTURES
from tests.text.answer.test_forcing import CLOCK, FEW, GIVEN, WEATHER, call_text, parsed, plain
from tests.text.answer.watched import Watched

CASES = [(name, index) for name, index in test_forcing.CASES if SHAPES[name][index].awaits]
NOT_ANY = "not " * 30  # longer than any beginning of an answer


def opening(family: str, index: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    shape = replace(SHAPES[family][index], needs="")
    monkeypatch.setitem(SHAPES, family, (shape,))  # type: ignore[arg-type]
    return plain(shape)


@pytest.mark.parametrize("front", ["", "I look. "])
@pytest.mark.parametrize("arguments", [GIVEN, FEW], ids=["all", "few"])
@pytest.mark.parametrize(("family", "index"), CASES)
def test_a_call_of_every_family_is_held_to_its_schema(
    family: str, index: int, arguments: Any, front: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if front and family == "llama":
        return  # text that is a call only where nothing stands in front of it
    form, shape = FAMILIES[family], opening(family, index, monkeypatch)
    call = shape.begin + call_text(shape, WEATHER, arguments) + shape.end
    answer = parsed(front + call, form, WEATHER, CLOCK)
    assert [(c.name, c.complete) for c in answer.calls] == [("weather", True)]

    watched = Watched(form, WEATHER, CLOCK)
    assert watched.reads(front + call)
    assert watched.may_end
    wrong = shape.begin + call_text(shape, WEATHER, {**arguments, "places": 7}) + shape.end
    assert not Watched(form, WEATHER, CLOCK).reads(front + wrong)
    cut = Watched(form, WEATHER, CLOCK)
    assert cut.reads(front + call[:-1])
    assert not cut.may_end


@pytest.mark.parametrize(("family", "index"), CASES)
def test_several_calls_where_they_are_wanted(
    family: str, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, shape = FAMILIES[family], opening(family, index, monkeypatch)
    if shape.between is None:
        return
    calls = call_text(shape, CLOCK, {}) + shape.between + call_text(shape, WEATHER, FEW)
    assert Watched(form, WEATHER, CLOCK).reads(shape.begin + calls + shape.end)
    assert not Watched(form, WEATHER, CLOCK, parallel=False).reads(shape.begin + calls + shape.end)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize(("family", "index"), CASES)
def test_white_space_behind_a_call_asks_for_no_other(
    family: str, index: int, parallel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, shape = FAMILIES[family], opening(family, index, monkeypatch)
    text = shape.begin + call_text(shape, CLOCK, {})
    ends = [text + shape.end]
    if shape.between is not None and not shape.between.strip():
        ends.append(text + "\n" + shape.end)
    for end in ends:
        watched = Watched(form, WEATHER, CLOCK, parallel=parallel)
        assert watched.reads(end)
        assert watched.may_end
        assert watched.reads("\n")
        assert watched.may_end
        assert not watched.reads("and")


OPEN_SCHEMAS: list[Any] = [
    None,
    {"type": "object", "properties": {}},
    {"$ref": "#/$defs/f", "$defs": {"f": {"type": "object"}}},
    {"anyOf": [{"properties": {"a": {"type": "string"}}}, {}], "additionalProperties": False},
    {"type": "object", "additionalProperties": {"type": "string"}},
    {"patternProperties": {"^a": {}}, "additionalProperties": False},
    {"properties": {"city": {"type": "string"}}, "additionalProperties": True},
    {"properties": 5},
]
TAGGED = [(name, index) for name, index in CASES if SHAPES[name][index].tags]


@pytest.mark.parametrize("schema", OPEN_SCHEMAS)
@pytest.mark.parametrize(("family", "index"), TAGGED)
def test_what_names_no_arguments_leaves_them_free(family: str, index: int, schema: Any) -> None:
    form, shape = FAMILIES[family], SHAPES[family][index]
    given = {"city": "</b> x", "any-thing": [1, "2"]}
    for arguments in (given, {}):
        text = shape.begin + call_text(shape, Tool("f"), arguments) + shape.end
        watched = Watched(form, Tool("f", schema), CLOCK)
        assert watched.reads(text)
        assert watched.may_end
        (call,) = parsed(text, form, Tool("f", schema)).calls
        assert json.loads(call.arguments) == arguments
    assert not Watched(form, Tool("f", schema)).reads(shape.begin + shape.head.replace(NAME, "g"))


@pytest.mark.parametrize(("family", "index"), TAGGED)
def test_what_may_have_no_arguments_has_none(family: str, index: int) -> None:
    form, shape = FAMILIES[family], SHAPES[family][index]
    tool = Tool("f", {"properties": {}, "additionalProperties": False})
    text = shape.begin + call_text(shape, tool, {"a": 1})
    assert not Watched(form, tool).reads(text)


@pytest.mark.parametrize("family", sorted({name for name, _ in CASES}))
def test_text_is_free(family: str) -> None:
    watched = Watched(FAMILIES[family], WEATHER, CLOCK)
    assert watched.reads(f'{NOT_ANY}{{"name": "weather", "parameters": 7}} functools [] < > 漢')
    assert watched.may_end


@pytest.mark.parametrize(
    ("family", "text"),
    [
        # Without what usually stands around calls, and with other white space.
        ("hermes", '<tool_call>{"name": "clock", "arguments": {}}\n</tool_call>'),
        ("hermes", '<tool_call>\n\n{"name": "clock", "arguments": {}}\n</tool_call>'),
        ("qwen3-coder", "<function=clock>\n</function>\n</tool_call>"),
        (
            "deepseek-v3",
            "<｜tool▁call▁begin｜>clock<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ),
        ("minimax-m2", '<invoke name="clock">\n</invoke>\n</minimax:tool_call>'),
    ],
)
def test_a_call_may_begin_without_its_section(family: str, text: str) -> None:
    watched = Watched(FAMILIES[family], CLOCK)
    assert watched.reads(f"So: {text}")
    assert watched.may_end
    (call,) = parsed(f"So: {text}", FAMILIES[family], CLOCK).calls
    assert (call.name, json.loads(call.arguments)) == ("clock", {})


def test_a_call_that_the_prompt_begins() -> None:
    form = FAMILIES["functionary-v3.2"]
    assert Watched(form, CLOCK, opened=">>>").reads("clock\n{}")
    assert not Watched(form, CLOCK, opened=">>>").reads("clock\n7")
    assert Watched(form, CLOCK, opened=">>>").reads("all\nclock\n7 >>>clock\n{}")


def test_numbers_count_up() -> None:
    form, shape = FAMILIES["kimi-k2"], SHAPES["kimi-k2"][0]
    second = call_text(shape, CLOCK, {}, number=1)
    calls = call_text(shape, CLOCK, {}) + second
    assert NUMBER not in calls
    assert Watched(form, CLOCK).reads(shape.begin + calls + shape.end)


@pytest.mark.parametrize("family", ["hermes", "qwen3-coder"])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
    ],
)
def test_what_can_not_be_enforced_is_json_at_least(family: str, schema: Any) -> None:
    shape = SHAPES[family][0]
    text = call_text(shape, Tool("f"), {"a": [1, 1]})
    assert Watched(FAMILIES[family], Tool("f", schema), CLOCK).reads(text)
    assert not Watched(FAMILIES[family], Tool("f", schema), CLOCK).reads(
        text.replace('"f"', '"g"').replace("=f>", "=g>")
    )


def test_what_a_model_writes_in_another_way_is_left_to_it() -> None:
    """Gemma's quotes: calls, but not as forced ones are."""
    assert awaited_grammar(FAMILIES["gemma-4"], [WEATHER], special=lambda _: None) is None


# Kinds of cases whose texts are whole calls, as the template writes them.
WRITTEN = (
    *("one", "parallel", "no-parameters", "no-parameters-then-some", "nested", "unicode"),
    *("quotes-and-lines", "call-after-text"),
)


def _written() -> list[Any]:
    found = []
    for path in FIXTURES:
        told = json.loads(path.read_text("utf-8"))
        # Mistral's newer way is told by a token of the vocabulary.
        if SHAPES[told["family"]][0].awaits and path.stem != "mistral":
            is_one = SHAPES[told["family"]][0].between is None
            found += [
                pytest.param(format_of(told["template"]), case, id=f"{path.stem}-{case['name']}")
                for case in told["cases"]
                if case["name"] in WRITTEN and not (is_one and len(case["calls"]) > 1)
            ]
    return found


@pytest.mark.parametrize(("form", "case"), _written())
def test_what_a_family_s_template_writes_may_be_written(form: AnswerFormat, case: Any) -> None:
    watched = Watched(form, *TOOLS)
    assert watched.reads(case["text"].removesuffix("<|calls|>"))  # which ends the turn
    assert watched.may_end


def test_a_call_in_cohere_s_json_may_have_an_id() -> None:
    text = '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "weather", "parameters": '
    form = FAMILIES["command-r7b"]
    assert Watched(form, WEATHER).reads(text + '{"city": "", "places": []}}\n]<|END_ACTION|>')
    assert not Watched(form, WEATHER).reads(text + '{"city": 7')
    assert not Watched(form, WEATHER).reads(text.replace('"0"', '{"a": 1}'))


MIXED = Tool(
    "f",
    {
        "properties": {
            "text": {"type": "string"},
            "name": {"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]},
            "num": {"type": ["string", "integer"]},
            "flag": {"type": "boolean"},
            "any": {},
        }
    },
)
DSML = (
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n'
    '<｜DSML｜parameter name="{}" string="{}">{}</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜function_calls>"
)
K3 = (
    '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>'
    '<|open|>argument key="{}" type="{}"<|sep|>{}<|close|>argument<|sep|>'
    "<|close|>call<|sep|><|close|>tools<|sep|>"
)
VALUES: list[tuple[str, bool, str, Any]] = [
    # name, whether it is said to be a text, value, what it means: () for nothing
    ("text", True, "7 </b>", "7 </b>"),
    ("text", False, "7", ()),
    ("name", True, "a", "a"),
    ("name", True, "c", ()),
    ("name", False, "null", None),
    ("name", False, "7", ()),
    ("num", True, "7", "7"),
    ("num", False, "7", 7),
    ("num", False, "[]", ()),
    ("flag", True, "true", ()),
    ("flag", False, "true", True),
    ("any", True, "[1", "[1"),
    ("any", False, '[1, "x"]', [1, "x"]),
    ("any", False, "[1", ()),
]
NAMED = {str: "string", bool: "boolean", int: "number", list: "array", type(None): "null"}


@pytest.mark.parametrize(("name", "is_text", "value", "means"), VALUES)
@pytest.mark.parametrize("family", ["deepseek-dsml", "kimi-k3"])
def test_a_type_in_front_of_a_value_is_the_schema_s(
    family: str, name: str, is_text: bool, value: str, means: Any
) -> None:
    if family == "kimi-k3":
        kind = "string" if is_text else NAMED[type(means)] if means != () else "number"
        text = K3.format(name, kind, value)
    else:
        text = DSML.format(name, str(is_text).lower(), value)
    form = FAMILIES[family]
    assert Watched(form, MIXED).reads(text) == (means != ())
    if means != ():
        (call,) = parsed(text, form, MIXED).calls
        assert json.loads(call.arguments) == {name: means}


def test_tools_without_end_are_left_alone() -> None:
    tools = [Tool(f"f{n}", {"properties": {"x" * 1000: {}}}) for n in range(128)]
    form = FAMILIES["hermes"]
    assert awaited_grammar(form, tools, special=lambda _: None) is None
    assert awaited_grammar(form, [], special=lambda _: None) is None


def test_tools_that_each_wake_a_grammar_are_not_too_many() -> None:
    """Calls of this family begin with the name; its other ways of writing have room for fewer."""
    form, tools = FAMILIES["llama"], [Tool(f"f{n}") for n in range(MAX_TRIGGERS + 1)]
    assert Watched(form, *tools[:3]).reads("[f1()]")
    assert awaited_grammar(form, tools[:100], special=lambda _: None) is not None
    assert awaited_grammar(form, tools, special=lambda _: None) is None
