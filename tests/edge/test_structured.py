"""The form of an answer as clients ask for it: what reaches the engine, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from inference.engine.guided import guided
from inference.engine.mock_tokenizer import END_TOKEN, MockTokenizer
from inference.protocol.params import Grammar
from tests.edge.events import answer
from tests.edge.wire import CHAT, TEXT, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
TOKENIZER = MockTokenizer()
SCHEMA = {"type": "object", "properties": {"é": {"type": "integer"}}}
IN_CHAT = "response_format.json_schema.schema"


def json_format(**fields: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": fields}}


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(
    ("given", "param", "schema"),
    [
        (json_format(name="x", schema=SCHEMA, strict=True), IN_CHAT, SCHEMA),
        (json_format(schema=SCHEMA, strict=None), IN_CHAT, SCHEMA),
        (json_format(schema={}), IN_CHAT, {}),
        ({"response_format": {"type": "json_object"}}, "response_format.schema", {}),
        (
            {"response_format": {"type": "json_object", "schema": SCHEMA}},
            "response_format.schema",
            SCHEMA,
        ),
        ({"json_schema": SCHEMA}, "json_schema", SCHEMA),
        ({"json_schema": {}, "grammar": ""}, "json_schema", {}),
        ({"structured_outputs": {"json": SCHEMA}}, "structured_outputs.json", SCHEMA),
        ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, "structured_outputs.json", SCHEMA),
        ({"structured_outputs": {"json_object": True}}, "structured_outputs.json_object", {}),
    ],
)
async def test_a_schema_reaches_the_engine_with_the_field_it_stood_in(
    says: Says, wire: Wire, path: str, given: dict[str, Any], param: str, schema: Any
) -> None:
    fake = says(*answer("x"))
    status, body = await wire.post(path, **given)
    assert status == 200, body
    grammar = fake.submitted[0].sampling.grammar
    assert grammar is not None
    assert (grammar.kind, grammar.param, grammar.lazy) == ("json_schema", param, False)
    assert json.loads(grammar.text) == schema


@pytest.mark.parametrize(
    ("given", "grammar"),
    [
        ({"response_format": {"type": "text"}}, None),
        ({"structured_outputs": None}, None),
        (
            {"structured_outputs": {"regex": "a+", "json": None}},
            Grammar("a+", kind="regex", param="structured_outputs.regex"),
        ),
        (
            {"structured_outputs": {"grammar": "root ::= [a]"}},
            Grammar("root ::= [a]", param="structured_outputs.grammar"),
        ),
        ({"grammar": "%llguidance {}\nstart: A"}, Grammar("%llguidance {}\nstart: A", kind="lark")),
    ],
)
async def test_other_forms(
    says: Says, wire: Wire, given: dict[str, Any], grammar: Grammar | None
) -> None:
    fake = says(*answer("x"))
    status, body = await wire.post(CHAT, **given)
    assert status == 200, body
    assert fake.submitted[0].sampling.grammar == grammar


def may_say(grammar: Grammar, text: str) -> bool:
    """Whether the engine lets a model say just this."""
    constraint = guided(grammar, TOKENIZER)
    for byte in text.encode():
        if not constraint.allows(byte):
            return False
        constraint.accept(byte)
    return constraint.allows(END_TOKEN)


async def test_choices_are_meant_letter_by_letter(says: Says, wire: Wire) -> None:
    choices = [
        "a.b",
        "(c|d)*",
        "é\n",
        "x-y",
        "漢",
        "<b>",
        "100 %",
        "/",
        '"',
        "\\",
        "[^a]{2}$",
        "#&~",
    ]
    choices += ["\t", "\u00a0", "🦊", "a/b/i", "?", "+"]
    fake = says(*answer("x"))
    assert (await wire.post(CHAT, structured_outputs={"choice": choices}))[0] == 200
    grammar = fake.submitted[0].sampling.grammar
    assert grammar is not None
    for text in (*choices, "aXb", "", "c", "b", "//"):
        assert may_say(grammar, text) == (text in choices), text


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (json_format(name="x"), "response_format.json_schema"),
        (json_format(schema=123), IN_CHAT),
        (json_format(schema=SCHEMA, strict="yes"), "response_format.json_schema.strict"),
        ({"response_format": {"type": 123}}, "response_format"),
        ({"response_format": {"type": "hiccup"}}, "response_format.type"),
        ({"response_format": {"type": "json_object", "schema": 123}}, "response_format.schema"),
        ({"json_schema": [SCHEMA]}, "json_schema"),
        ({"json_schema": {"a": "x" * 140_000}}, "json_schema"),
        ({"json_schema": SCHEMA, "grammar": "root ::= [a]"}, "json_schema"),
        ({"json_schema": SCHEMA, **json_format(schema=SCHEMA)}, "response_format"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": "json"}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs"),
        ({"structured_outputs": {"xml": "a"}}, "structured_outputs"),
        ({"structured_outputs": {"regex": ""}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": "a" * 70_000}}, "structured_outputs.regex"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
        (
            {"structured_outputs": {"json": '{"a":' + "[" * 100 + "]" * 100 + "}"}},
            "structured_outputs.json",
        ),
        ({"grammar": '%llguidance {}\nstart: %json {"type": "null"}'}, "grammar"),
        (
            {"structured_outputs": {"grammar": '%llguidance {}\nstart: %lark {\nstart: "a"\n}'}},
            "structured_outputs.grammar",
        ),
        ({"structured_outputs": {"json_object": False}}, "structured_outputs.json_object"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": [1]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"grammar": 1}}, "structured_outputs.grammar"),
    ],
)
async def test_what_is_no_form_is_refused_by_field(
    says: Says, wire: Wire, given: dict[str, Any], param: str
) -> None:
    fake = says(*answer("x"))
    status, body = await wire.post(CHAT, **given)
    assert (status, body["error"]["param"]) == (400, param), body
    assert not fake.submitted
