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
from inference.text.answer.families import FAMILIES, AnswerFormat
from inference.text.answer.forcing import awaited_grammar
from inference.text.answer.shapes import NUMBER, SHAPES
from inference.text.answer.tools import Tool
from tests.text.answer.test_forcing import CASES, CLOCK, FEW, GIVEN, WEATHER, call_text, parsed

TOKENIZER = MockTokenizer()
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
    form, shape = FAMILIES[family], opening(family, index, monkeypatch)
    begin = "<|python_tag|>" if family == "llama" and front else shape.begin
    call = begin + call_text(shape, WEATHER, arguments) + shape.end
    answer = parsed(front + call, form, WEATHER, CLOCK)
    assert [(c.name, c.complete) for c in answer.calls] == [("weather", True)]

    watched = Watched(form, WEATHER, CLOCK)
    assert watched.reads(front + call)
    assert watched.may_end
    wrong = begin + call_text(shape, WEATHER, {**arguments, "places": 7}) + shape.end
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


@pytest.mark.parametrize("family", sorted(FAMILIES))
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


def test_tools_without_end_are_left_alone() -> None:
    tools = [Tool(f"f{n}", {"properties": {"x" * 1000: {}}}) for n in range(128)]
    form = FAMILIES["hermes"]
    assert awaited_grammar(form, tools, special=lambda _: None) is None
    assert awaited_grammar(form, [], special=lambda _: None) is None
