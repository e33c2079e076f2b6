"""A call that a model begins by itself is held to the tools from its first marker on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from inference.engine.guided import guided
from inference.engine.lazy_grammar import LazyGrammar
from inference.engine.lenient import LenientGrammar
from inference.engine.mock_tokenizer import END_TOKEN, MockTokenizer
from inference.protocol.params import MAX_TRIGGERS
from inference.text.answer.families import FAMILIES, AnswerFormat
from inference.text.answer.forcing import awaited_grammar
from inference.text.answer.shapes import NAME, NUMBER, SHAPES
from inference.text.answer.tools import Tool
from tests.text.answer import test_forcing
from tests.text.answer.test_forcing import CLOCK, FEW, GIVEN, WEATHER, call_text, parsed

TOKENIZER = MockTokenizer()
CASES = [(name, index) for name, index in test_forcing.CASES if SHAPES[name][index].awaits]
NOT_ANY = "not " * 30  # longer than any beginning of an answer


class Watched:
    """A lazy grammar that reads a text."""

    def __init__(self, form: AnswerFormat, *tools: Tool, **options: Any) -> None:
        grammar = awaited_grammar(form, tools, special=lambda _: None, **options)
        assert grammar is not None
        assert grammar.lazy
        assert grammar.lenient
        rules = LenientGrammar(guided(grammar, TOKENIZER))
        self.rules = rules
        self._lazy = LazyGrammar(rules, grammar.triggers, TOKENIZER, frozenset(range(256)))

    def reads(self, text: str) -> bool:
        """Whether `text` may be said, all of it."""
        for token in text.encode():
            if not self._lazy.allows(token):
                return False
            self._lazy.accept(token)
        assert not self.rules._is_dropped
        return True

    @property
    def may_end(self) -> bool:
        """Whether the answer may end here."""
        return self._lazy.allows(END_TOKEN)


def opening(family: str, index: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    shape = replace(SHAPES[family][index], needs="")
    monkeypatch.setitem(SHAPES, family, (shape,))  # type: ignore[arg-type]
    return shape


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
    """Llama's code, LFM2's lists and Gemma's quotes: calls, but not as forced ones are."""
    for family in ("lfm2", "gemma-4"):
        assert awaited_grammar(FAMILIES[family], [WEATHER], special=lambda _: None) is None
    watched = Watched(FAMILIES["llama"], WEATHER)
    assert watched.reads('<|python_tag|>weather.call(city="Paris", places=[])')
    assert watched.may_end


def test_tools_without_end_are_left_alone() -> None:
    tools = [Tool(f"f{n}", {"properties": {"x" * 1000: {}}}) for n in range(128)]
    form = FAMILIES["hermes"]
    assert awaited_grammar(form, tools, special=lambda _: None) is None
    assert awaited_grammar(form, [], special=lambda _: None) is None


def test_tools_that_each_wake_a_grammar_are_not_too_many() -> None:
    """Calls of this family begin with the name."""
    form, tools = FAMILIES["llama"], [Tool(f"f{n}") for n in range(MAX_TRIGGERS + 1)]
    assert awaited_grammar(form, tools[:100], special=lambda _: None) is not None
    assert awaited_grammar(form, tools, special=lambda _: None) is None
