"""With tools and a schema, what may be written is calls or an answer in the form, and the parser of
the family tells which."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from inference.engine.guidance import compile_grammar
from inference.engine.mock_tokenizer import MockTokenizer
from inference.protocol.params import Grammar
from inference.text.answer.either import calls_instead
from inference.text.answer.events import CallStart, Text
from inference.text.answer.families import FAMILIES, AnswerFormat
from inference.text.answer.lark_writer import front_of
from inference.text.answer.reasoning_tags import THINK
from inference.text.answer.shapes import SHAPES, CallShape
from inference.text.answer.tools import Tool
from llamaweb.lib.errors import InvalidError
from tests.text.answer.answers import read
from tests.text.answer.test_forcing import CASES, CLOCK, GIVEN, WEATHER, call_text, parsed, plain

TOKENIZER = MockTokenizer()
FORM = {
    "type": "object",
    "properties": {"note": {"type": "string"}},
    "required": ["note"],
    "additionalProperties": False,
}
MARKED = [case for case in CASES if case[0] != "llama"]


def either(family: str) -> AnswerFormat:
    return FAMILIES[family].with_calls_or_a_form()


def grammar_of(form: AnswerFormat, *tools: Tool, schema: Any = FORM, opened: str = "") -> Grammar:
    return Grammar(
        json.dumps(schema),
        kind="json_schema",
        param="json_schema",
        front=front_of(form, opened=opened, special=lambda _: None),
        instead=calls_instead(form, tools, opened=opened, special=lambda _: None),
    )


def follows(text: str, form: AnswerFormat, *tools: Tool, opened: str = "") -> bool:
    """Whether all of `text` may be the answer."""
    matcher = compile_grammar(grammar_of(form, *tools, opened=opened), TOKENIZER).deep_copy()
    tokens = TOKENIZER.tokenize(text, add_special=False, parse_special=False)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def shape_of(family: str, index: int, monkeypatch: pytest.MonkeyPatch) -> CallShape:
    shape = replace(SHAPES[family][index], needs="")
    monkeypatch.setitem(SHAPES, family, (shape,))  # type: ignore[arg-type]
    return plain(shape)


@pytest.mark.parametrize(("family", "index"), MARKED)
def test_calls_or_the_form_and_nothing_else(
    family: str, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, shape = either(family), shape_of(family, index, monkeypatch)
    call = shape.begin + call_text(shape, WEATHER, GIVEN) + shape.end
    said = json.dumps({"note": call}, ensure_ascii=False)
    answer = "<|channel|>final<|message|>" * form.is_harmony + said
    assert follows(call, form, WEATHER, CLOCK)
    assert follows(answer, form, WEATHER, CLOCK)
    wrong = shape.begin + call_text(shape, WEATHER, {**GIVEN, "places": 7}) + shape.end
    for text in ("I would rather talk.", "", "{}", wrong, call + answer, answer + call):
        assert not follows(text, form, WEATHER, CLOCK), text

    told = parsed(call, form, WEATHER, CLOCK)
    assert [(c.name, c.complete) for c in told.calls] == [("weather", True)]
    assert json.loads(told.calls[0].arguments) == GIVEN
    assert told.text == ""
    if not form.is_harmony:  # what stands in its text isn't markup, as it is no token
        told = parsed(answer, form, WEATHER, CLOCK)
        assert (told.text, told.reasoning, told.calls) == (said, "", [])


@pytest.mark.parametrize(("family", "index"), MARKED)
def test_what_it_is_never_depends_on_the_cuts(
    family: str, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, shape = either(family), shape_of(family, index, monkeypatch)
    call = shape.begin + call_text(shape, CLOCK, {}) + shape.end
    for text in (call, json.dumps({"note": "" if form.is_harmony else call})):
        whole = read(form, text, tools=[WEATHER, CLOCK])
        assert read(form, text, range(1, len(text)), tools=[WEATHER, CLOCK]) == whole


@pytest.mark.parametrize(
    "said", ['{"tool_call": {"name": "clock", "arguments": {}}}', '{"response": ""}']
)
def test_a_form_is_no_envelope_of_calls(said: str) -> None:
    told = parsed(said, either("generic"), CLOCK)
    assert (told.text, told.calls) == (said, [])


def test_calls_that_begin_as_json_are_refused() -> None:
    with pytest.raises(InvalidError, match="a form") as caught:
        calls_instead(either("llama"), [CLOCK], special=lambda _: None)
    assert caught.value.param == "tools"


@pytest.mark.parametrize("opened", ["", "<think>\n"])
@pytest.mark.parametrize(
    "rest",
    ['<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>', '{"note": "</think>"}'],
)
def test_reasoning_may_stand_in_front_of_both(opened: str, rest: str) -> None:
    form = replace(FAMILIES["hermes"], reasoning=THINK).with_calls_or_a_form()
    draft = 'Is it <tool_call>{"name": "weather", "arguments": {}}</tool_call>?'
    text = f"{'' if opened else '<think>'}{draft}</think>\n\n{rest}"
    assert follows(text, form, WEATHER, CLOCK, opened=opened)
    assert follows(rest, form, WEATHER, CLOCK, opened=opened) == (not opened)
    told = parsed(text, form, WEATHER, CLOCK, opened=opened)
    is_call = rest.startswith("<")
    assert told.reasoning == draft
    assert told.text == ("" if is_call else rest)
    assert [call.name for call in told.calls] == ["clock"] * is_call


def test_harmony_says_which_by_its_channels() -> None:
    form, shape = either("gpt-oss"), SHAPES["gpt-oss"][0]
    thought = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
    for rest in (call_text(shape, CLOCK, {}), '<|channel|>final<|message|>{"note": ""}'):
        assert follows(thought + rest, form, CLOCK)
    events = read(form, thought + '<|channel|>final<|message|>{"note": ""}', tools=[CLOCK])
    assert Text('{"note": ""}') in events
    assert not any(isinstance(event, CallStart) for event in events)


def test_a_call_that_the_prompt_begins() -> None:
    form = either("functionary-v3.2")
    for text, names in (("clock\n{}", ["clock"]), ('{"note": ">>>clock\\n{}"}', [])):
        assert follows(text, form, CLOCK, opened=">>>")
        told = parsed(text, form, CLOCK, opened=">>>")
        assert [call.name for call in told.calls] == names
        assert told.text == ("" if names else text)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "object", "properties": {"a": {"pattern": "(?=a)a"}}}, ".properties.a.pattern"),
        ({"type": "array", "uniqueItems": True}, ".uniqueItems"),
        # Calls alone would be left.
        ({"type": "string", "minLength": 3, "maxLength": 1}, ""),
    ],
)
def test_a_form_that_can_not_be_enforced_is_refused_as_without_tools(
    schema: Any, path: str
) -> None:
    grammar = grammar_of(either("hermes"), CLOCK, schema=schema)
    refusals = []
    for given in (grammar, replace(grammar, instead="")):
        with pytest.raises(InvalidError) as caught:
            compile_grammar(given, TOKENIZER)
        refusals.append((caught.value.param, caught.value.message))
    assert refusals[0] == refusals[1]
    assert refusals[0][0] == f"json_schema{path}"


def test_tools_are_part_of_what_is_remembered() -> None:
    form = either("hermes")
    for tool, other in itertools.permutations((CLOCK, Tool("watch"))):
        call = f'<tool_call>\n{{"name": "{tool.name}", "arguments": {{}}}}\n</tool_call>'
        assert follows(call, form, tool)
        assert not follows(call, form, other)
