"""What a model is made to write is a call to the parser of its family, and nothing else fits."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from inference.engine.guidance import compile_grammar
from inference.engine.mock_tokenizer import MockTokenizer
from inference.text.answer import call_writer
from inference.text.answer.events import whole
from inference.text.answer.families import FAMILIES, AnswerFormat
from inference.text.answer.forcing import forced_grammar
from inference.text.answer.lark_writer import MAX_CHARS
from inference.text.answer.parser import AnswerParser
from inference.text.answer.reasoning_tags import THINK
from inference.text.answer.shapes import (
    BARE_ID,
    CALL_ID,
    GAP,
    KEY,
    KIND,
    LAST_ID,
    NAME,
    NUMBER,
    SHAPES,
    CallShape,
)
from inference.text.answer.tools import Tool
from inference.text.schema.prepare import prepare
from llamaweb.lib.errors import InvalidError

TOKENIZER = MockTokenizer()
WEATHER = Tool(
    "weather",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "unit": {"type": "string", "enum": ["C", "F"]},
            "places": {"type": "array", "items": {"$ref": "#/$defs/place"}},
        },
        "required": ["city", "places"],
        "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number"}}}},
    },
)
CLOCK = Tool("clock")
OPTIONAL = re.compile("|".join((GAP, CALL_ID, KIND, LAST_ID, BARE_ID)))
MAX_PREPARED = 40  # times that a schema is prepared for a grammar that becomes too long
GIVEN: dict[str, Any] = {"city": 'Zürich "x" 😺', "days": 2, "unit": "C", "places": [{"x": 1.5}]}
FEW: dict[str, Any] = {"city": "", "places": []}


def follows(text: str, form: AnswerFormat, *tools: Tool, **options: Any) -> bool:
    """Whether all of `text` is what the grammar asks for."""
    grammar = forced_grammar(form, tools, special=lambda _: None, **options)
    matcher = compile_grammar(grammar, TOKENIZER).deep_copy()
    tokens = TOKENIZER.tokenize(text, add_special=False, parse_special=False)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def plainest(text: str) -> str:
    """A shape's text without what may be left out of it."""
    return OPTIONAL.sub("", text)


def plain(shape: CallShape) -> CallShape:
    """The shape without what may be left out."""
    between = None if shape.between is None else plainest(shape.between)
    return replace(
        shape,
        begin=plainest(shape.begin),
        head=plainest(shape.head),
        tail=plainest(shape.tail),
        between=between,
        end=plainest(shape.end),
    )


def call_text(shape: CallShape, tool: Tool, arguments: dict[str, Any], *, number: int = 0) -> str:
    text = json.dumps(arguments, ensure_ascii=False)
    if shape.tags is not None:
        text = "".join(
            plainest(shape.tags.opener).replace(KEY, key)
            + (value if isinstance(value, str) else json.dumps(value))
            + shape.tags.closer
            for key, value in arguments.items()
        )
    head = plainest(shape.head).replace(NAME, tool.name).replace(NUMBER, str(number))
    return head + text + plainest(shape.tail)


def parsed(text: str, form: AnswerFormat, *tools: Tool, opened: str = "") -> Any:
    parser = AnswerParser(form, tools=tools, make_id=lambda: "id", opened=opened)
    return whole([*parser.push(text), *parser.finish()])


CASES = [(name, index) for name in SHAPES for index in range(len(SHAPES[name]))]


def test_every_family_has_a_shape() -> None:
    assert set(SHAPES) == set(FAMILIES)
    assert all(not shapes[-1].needs for name, shapes in SHAPES.items())


@pytest.mark.parametrize(("family", "index"), CASES)
@pytest.mark.parametrize("arguments", [GIVEN, FEW], ids=["all", "few"])
def test_a_forced_call_is_one(
    family: str, index: int, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    form, shape = FAMILIES[family], replace(SHAPES[family][index], needs="")
    monkeypatch.setitem(SHAPES, family, (shape,))  # type: ignore[arg-type]
    shape = plain(shape)
    text = shape.begin + call_text(shape, WEATHER, arguments) + shape.end
    assert follows(text, form, WEATHER, CLOCK)
    assert not follows(text, form, WEATHER, CLOCK, name="clock")
    assert follows(text + "\n", form, WEATHER)
    assert not follows(text + "x", form, WEATHER)
    assert not follows("I would rather talk.", form, WEATHER)
    answer = parsed(text, form, WEATHER, CLOCK)
    assert (answer.text, answer.reasoning) == ("", "")
    assert [(c.name, c.complete) for c in answer.calls] == [("weather", True)]
    assert json.loads(answer.calls[0].arguments) == arguments


@pytest.mark.parametrize(("family", "index"), CASES)
def test_several_calls_and_none_without_parameters(
    family: str, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, shape = FAMILIES[family], replace(SHAPES[family][index], needs="")
    monkeypatch.setitem(SHAPES, family, (shape,))  # type: ignore[arg-type]
    shape = plain(shape)
    clock = call_text(shape, CLOCK, {})
    weather = call_text(shape, WEATHER, FEW)
    between = shape.between
    text = shape.begin + clock + (between or "") + weather + shape.end
    assert follows(text, form, WEATHER, CLOCK) == (between is not None)
    assert not follows(text, form, WEATHER, CLOCK, parallel=False)
    if between is not None:
        names = [call.name for call in parsed(text, form, WEATHER, CLOCK).calls]
        assert names == ["clock", "weather"]


def test_reasoning_may_come_first() -> None:
    form = replace(FAMILIES["hermes"], reasoning=THINK)
    call = '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'
    thoughts = "\nIs <b>it</b> late? </think >"
    assert follows(call, form, CLOCK)
    assert follows(f"<think>{thoughts}</think>\n\n{call}", form, CLOCK)
    assert follows(f"{thoughts}</think>\n{call}", form, CLOCK, opened="<think>\n")
    assert not follows(call, form, CLOCK, opened="<think>\n")
    assert not follows(f"{thoughts}</think>\nSo: {call}", form, CLOCK, opened="<think>\n")


def test_harmony_thinks_in_a_message_of_its_own() -> None:
    form = FAMILIES["gpt-oss"]
    shape = SHAPES["gpt-oss"][0]
    thought = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
    assert follows(thought + call_text(shape, CLOCK, {}), form, CLOCK)


def test_a_call_that_the_prompt_begins() -> None:
    form = FAMILIES["functionary-v3.2"]
    assert follows("clock\n{}", form, CLOCK, opened=">>>")
    assert parsed("clock\n{}", form, CLOCK, opened=">>>").calls[0].name == "clock"


def test_special_tokens_are_named_by_their_id() -> None:
    ids = {"<｜tool▁call▁begin｜>": 7, "<｜tool▁sep｜>": 8}
    grammar = forced_grammar(FAMILIES["deepseek-v3"], [CLOCK], special=ids.get)
    assert 'call: (<[7]> "clock" <[8]> args0)' in grammar.text
    assert "｜tool▁sep｜" not in grammar.text


class OneMarker(MockTokenizer):
    """With a marker of DeepSeek's as a token."""

    vocab_len = 258
    marker = "｜DSML｜"

    def tokenize(self, text: str, **_: Any) -> list[int]:
        first, *others = (list(part.encode()) for part in text.split(self.marker))
        return [*first, *(token for part in others for token in (257, *part))]

    def piece(self, token_id: int, *, special: bool = False) -> bytes:
        if token_id == 257:
            return self.marker.encode() if special else b""
        return super().piece(token_id, special=special)


def test_text_may_hold_what_stands_in_front_of_a_closing_token() -> None:
    tokenizer = OneMarker()
    tool = Tool("f", {"properties": {"a": {"type": "string"}}, "required": ["a"]})
    shape = SHAPES["deepseek-dsml"][0]
    special = {tokenizer.marker: 257}.get
    grammar = forced_grammar(FAMILIES["deepseek-dsml"], [tool], special=special)
    call = shape.begin + call_text(shape, tool, {"a": "<b>x</b> </"}) + shape.end
    for text, fits in ((call, True), (call.replace(" </", "｜DSML｜", 1), False)):
        tokens = tokenizer.tokenize(text)
        matcher = compile_grammar(grammar, tokenizer).deep_copy()
        assert (matcher.try_consume_tokens(tokens) == len(tokens)) == fits


@pytest.mark.parametrize("family", ["hermes", "qwen3-coder"])
def test_what_can_not_be_enforced_is_refused_with_its_path(family: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    strict = Tool("f", schema, is_strict=True)
    with pytest.raises(InvalidError) as caught:
        forced_grammar(FAMILIES[family], [CLOCK, strict], special=lambda _: None)
    assert caught.value.param == "tools[1].function.parameters.properties.a.uniqueItems"


@pytest.mark.parametrize("family", ["hermes", "qwen3-coder"])
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "array", "uniqueItems": True}}},
        {"properties": {"a": {"type": "object", "propertyNames": {"pattern": "^x"}}}},
        {"properties": {"a": {"type": "string", "format": "path"}}},
    ],
)
def test_an_ordinary_tool_is_called_whatever_its_schema_has(
    family: str, schema: dict[str, Any]
) -> None:
    form, shape = FAMILIES[family], SHAPES[family][0]
    values = {"array": ["x", "x"], "object": {"x": 1}, "string": "x"}
    arguments = {"a": values[schema["properties"]["a"]["type"]]}
    free = Tool("f", {"type": "object", **schema})
    text = shape.begin + call_text(shape, free, arguments) + shape.end
    assert follows(text, form, free, CLOCK)
    assert not follows("I would rather talk.", form, free, CLOCK)
    # What is beside it is held to its schema all the same.
    fine = call_text(shape, WEATHER, FEW)
    assert follows(shape.begin + fine + shape.end, form, free, WEATHER)
    assert not follows(
        shape.begin + call_text(shape, WEATHER, {"city": ""}) + shape.end, form, free, WEATHER
    )


BIG = {f"p{n}": {"type": "integer", "description": "x" * 100} for n in range(500)}
UNKNOWN = {f"x{n}": 1 for n in range(20_000)}


def doubled(levels: int) -> dict[str, Any]:
    """One enum, written out 2 ** levels times."""
    rungs = {f"d{n}": {"oneOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**rungs, f"d{levels}": {"enum": ["x" * 1000]}}}


@pytest.mark.parametrize(
    ("family", "schema"),
    [
        ("hermes", {"properties": {"x" * MAX_CHARS: {"type": "string"}}}),
        ("hermes", doubled(8)),
        (
            "qwen3-coder",
            {"properties": {"a": {"type": "string", "enum": ["<tool_call>" * 50_000]}}},
        ),
        ("qwen3-coder", {"properties": {f"p{n}": {"type": "string"} for n in range(20_000)}}),
        (
            "qwen3-coder",
            {
                "properties": {f"p{n}": {"$ref": "#/$defs/big"} for n in range(1000)},
                "$defs": {"big": {"type": "object", "properties": BIG}},
            },
        ),
        (
            "qwen3-coder",
            {
                "properties": {f"p{n}": {"$ref": "#/$defs/u"} for n in range(1000)},
                "$defs": {"u": UNKNOWN},
            },
        ),
    ],
)
def test_grammars_are_bounded_while_they_are_written(
    family: str, schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    num_prepared = 0

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal num_prepared
        num_prepared += 1
        return prepare(*args, **options)

    monkeypatch.setattr(call_writer, "prepare", counted)
    with pytest.raises(InvalidError) as caught:
        forced_grammar(FAMILIES[family], [Tool("f", schema, is_strict=True)], special=lambda _: 7)
    assert caught.value.param == "tools"
    assert num_prepared <= MAX_PREPARED


@pytest.mark.parametrize("family", ["hermes", "qwen3-coder"])
@pytest.mark.parametrize(
    ("parameters", "path"),
    [
        ({"properties": 5}, ".properties"),
        ({"properties": []}, ".properties"),
        ({"properties": {"a": 5}}, ".properties.a"),
        ({"properties": {"a": {"type": "string", "enum": 5}}}, ".properties.a.enum"),
        ({"properties": {"a": {"type": "string", "enum": []}}}, ".properties.a.enum"),
        ({"properties": {"a": {"const": 1, "enum": 5}}}, ".properties.a.enum"),
    ],
)
def test_parameters_that_are_no_schema_are_refused_with_their_path(
    family: str, parameters: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        follows("", FAMILIES[family], Tool("f", parameters, is_strict=True))
    assert caught.value.param == "tools[0].function.parameters" + path


def test_bare_text_can_not_be_an_enum_without_texts() -> None:
    tool = Tool("f", {"properties": {"a": {"type": "string", "enum": [5]}}}, is_strict=True)
    with pytest.raises(InvalidError) as caught:
        follows("", FAMILIES["qwen3-coder"], tool)
    assert caught.value.param == "tools[0].function.parameters.properties.a.enum"


@pytest.mark.parametrize("family", ["hermes", "qwen3-coder"])
def test_what_is_null_in_parameters_is_not_there(family: str) -> None:
    shape = SHAPES[family][0]
    nothing = dict.fromkeys(("properties", "required", "additionalProperties", "type"))
    assert follows(call_text(shape, CLOCK, {}), FAMILIES[family], Tool("clock", nothing))
    free = Tool("clock", {"properties": {"a": {"type": "string", "enum": None}}})
    assert follows(call_text(shape, CLOCK, {"a": "x"}), FAMILIES[family], free)


@pytest.mark.parametrize("family", ["hermes", "qwen3-coder"])
def test_a_value_of_an_enum_may_be_empty(family: str) -> None:
    tool = Tool("clock", {"properties": {"a": {"type": "string", "enum": ["", "b"]}}})
    for text in ("", "b"):
        assert follows(call_text(SHAPES[family][0], CLOCK, {"a": text}), FAMILIES[family], tool)


def test_markers_in_a_text_are_found_at_once() -> None:
    """The longest at each place, one after the other, texts between them as they stand."""
    ids = {"<a>": 1, "<a>b": 2, "b<": 3}
    form = replace(FAMILIES["generic"], calls=(), closers=(), silent=(*ids, "<c>"))
    shape = CallShape("x<a>b<a><c>b<a>" + "<a>" * 20_000)
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(SHAPES, "generic", (shape,))  # type: ignore[arg-type]
        with pytest.raises(InvalidError):
            forced_grammar(form, [CLOCK], special=ids.get)
        patched.setitem(SHAPES, "generic", (replace(shape, head=shape.head[:15]),))  # type: ignore[arg-type]
        grammar = forced_grammar(form, [CLOCK], special=ids.get)
    assert 'call: ("x" <[2]> <[1]> "<c>" <[3]> "a>" args0)' in grammar.text
