"""Schemas, expressions and Lark grammars on a vocabulary of bytes, walked at random: no model wants
anything here, so whatever the masks allow is said sooner or later."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import numpy as np
import pytest

from inference.engine.constraints import ConstraintError
from inference.engine.guidance import compile_grammar
from inference.engine.guided import GuidedConstraint, guided
from inference.engine.kept_grammars import MAX_KEPT, MAX_KEPT_CHARS, KeptGrammars, Refusal
from inference.engine.mock_tokenizer import END_TOKEN, VOCAB_LEN, MockTokenizer
from inference.protocol.params import Grammar, GrammarKind, GrammarTrigger, Limits, SamplingParams
from llamaweb.lib.errors import InvalidError
from tests.engine.driving import ask, failed, finished, make_engine, run_one, text_of
from tests.text.schema.judge import faults
from tests.text.schema.suite import ENFORCED, REFUSED

TOKENIZER = MockTokenizer()
NUM_WALKS = 25
MAX_STEPS = 300
CLOSING = frozenset(b'"}],:0123456789')  # preferred, so that walks come to an end
MAX_CUT = 0.2


def of_schema(schema: Any) -> Grammar:
    return Grammar(json.dumps(schema), kind="json_schema", param="json_schema")


def allowed(constraint: GuidedConstraint) -> list[int]:
    logits = np.zeros(VOCAB_LEN, np.float32)
    constraint.mask(logits)
    return [int(token) for token in np.flatnonzero(logits == 0.0)]


def walk(grammar: Grammar, rng: random.Random) -> bytes | None:
    """What a random choice among the allowed tokens says; None: it didn't end."""
    constraint = guided(grammar, TOKENIZER)
    said = bytearray()
    for _ in range(MAX_STEPS):
        tokens = allowed(constraint)
        assert tokens, f"nothing may follow {bytes(said)!r}"
        if END_TOKEN in tokens and (len(tokens) == 1 or rng.random() < 0.5):
            return bytes(said)
        tokens = [token for token in tokens if token != END_TOKEN]
        closing = [token for token in tokens if token in CLOSING]
        token = rng.choice(closing if closing and rng.random() < 0.7 else tokens)
        assert constraint.allows(token)
        constraint.accept(token)
        said.append(token)
    return None


@pytest.mark.parametrize("name", ENFORCED)
def test_all_that_is_allowed_validates(name: str) -> None:
    rng = random.Random(name)
    cut = 0
    for _ in range(NUM_WALKS):
        said = walk(of_schema(ENFORCED[name]), rng)
        if said is None:
            cut += 1
        else:
            assert faults(ENFORCED[name], json.loads(said)) == [], said
    assert cut <= MAX_CUT * NUM_WALKS


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_enforced_is_refused_with_its_path(name: str) -> None:
    schema, path = REFUSED[name]
    with pytest.raises(InvalidError) as caught:
        compile_grammar(of_schema(schema), TOKENIZER)
    assert caught.value.param == f"json_schema{path}"
    assert caught.value.message


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "number"}, "-1.5e+3"),
        ({"type": "string"}, r'"a\n\"\\ é 漢 🦊"'),
        ({"type": "object"}, '{"a": [1, {"b": null}], "c": true}'),
        ({}, '{\n  "a": 1,\n  "b": [\n    2\n  ]\n}'),
        ({"properties": {"a": {}, "b": {}}, "type": "object"}, '{"b": 1, "z": 2}'),
        ({"type": "string", "format": "date"}, '"2024-02-29"'),
        ({"type": "string", "format": "date-time"}, '"1999-12-31T23:59:59.5+02:00"'),
        ({"enum": [1, "x"]}, '"x"'),
        ({"type": "array", "items": {"type": "integer"}}, "[1,2 , 3]"),
        ({"anyOf": [{"type": "object", "required": ["a"]}, {"type": "null"}]}, '{"a":0}'),
    ],
)
def test_what_is_valid_may_be_said(schema: Any, value: str) -> None:
    constraint = guided(of_schema(schema), TOKENIZER)
    for byte in value.encode():
        assert constraint.allows(byte)
        constraint.accept(byte)
    assert constraint.allows(END_TOKEN)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "format": "date"}, '"2023-02-29"'),
        ({"type": "string", "format": "time"}, '"23:59:60Z"'),
        ({"type": "string"}, r'"\u0041"'),  # would be another way to write a name
        ({"type": "object"}, "{      "),  # and so on for ever
        ({"properties": {"a": {}, "b": {}}, "type": "object"}, '{"b": 1, "a"'),  # in their order
        ({"type": "integer"}, "1.0"),
    ],
)
def test_what_is_not_said(schema: Any, value: str) -> None:
    constraint = guided(of_schema(schema), TOKENIZER)
    *beginning, last = value.encode()
    refused = False
    for byte in (*beginning, last):
        refused = refused or not constraint.allows(byte)
        if not refused:
            constraint.accept(byte)
    assert refused


@pytest.mark.parametrize(
    ("kind", "text", "pattern"),
    [
        ("regex", "(red|green) [0-9]{2}", "(red|green) [0-9]{2}"),
        ("regex", "é+", "é+"),
        ("lark", 'start: A+ b?\nA: /[xy]/\nb: "!"', "[xy]+!?"),
        ("lark", '%llguidance {}\nstart: "n=" %json {"type": "boolean"}', "n=(true|false)"),
    ],
)
def test_expressions_and_lark(kind: GrammarKind, text: str, pattern: str) -> None:
    rng = random.Random(3)
    for _ in range(NUM_WALKS):
        said = walk(Grammar(text, kind=kind), rng)
        assert said is not None
        assert re.fullmatch(pattern, said.decode())


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(
            ("regex", text)
            for text in ("(", "a(?=b)", r"(a)\1", "[^\\x00-\\x{10ffff}]", "a" * 70_000)
        ),
        *(("lark", text) for text in ("", "x", "start: y", 'start: %json {"not": {}}', "(" * 5000)),
    ],
)
def test_what_is_no_grammar_is_refused_by_name(kind: GrammarKind, text: str) -> None:
    with pytest.raises(InvalidError) as caught:
        compile_grammar(Grammar(text, kind=kind, param="structured_outputs.regex"), TOKENIZER)
    assert caught.value.param == "structured_outputs.regex"


def test_a_compiled_grammar_is_remembered_and_not_changed_by_its_use() -> None:
    grammar = of_schema({"const": "once"})
    first, second = guided(grammar, TOKENIZER), guided(grammar, TOKENIZER)
    assert compile_grammar(grammar, TOKENIZER) is compile_grammar(grammar, TOKENIZER)
    first.accept(ord('"'))
    assert allowed(second) == [ord('"')]


def test_a_refusal_is_remembered_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = of_schema({"type": "string", "pattern": "once(?=twice)"})
    said = []
    for _ in range(2):
        with pytest.raises(InvalidError) as caught:
            compile_grammar(grammar, TOKENIZER)
        said.append((caught.value.message, caught.value.param))
        monkeypatch.setattr("inference.engine.guidance.make_matcher", None)  # can't be called
    assert said[0] == said[1]


def test_kept_grammars_are_bounded_and_the_last_ones() -> None:
    kept = KeptGrammars()
    made: list[int] = []

    def ask_for(number: int, num_chars: int = 1) -> None:
        def make() -> Refusal:
            made.append(number)
            return Refusal("no", None)

        kept.get(number, num_chars, make)

    for number in (*range(MAX_KEPT), *range(MAX_KEPT)):
        ask_for(number)
    assert made == list(range(MAX_KEPT))
    ask_for(MAX_KEPT)  # in the place of the one that was asked for the longest time ago
    ask_for(1)
    ask_for(0)
    assert made[MAX_KEPT:] == [MAX_KEPT, 0]
    for number in range(8):
        ask_for(100 + number, MAX_KEPT_CHARS // 4)
    assert kept.num_chars() <= MAX_KEPT_CHARS


def test_a_refused_token_changes_nothing() -> None:
    constraint = guided(of_schema({"const": "yes"}), TOKENIZER)
    for token in (END_TOKEN, ord("x")):
        assert not constraint.allows(token)
        with pytest.raises(ConstraintError):
            constraint.accept(token)
    for byte in b'"yes"':
        constraint.accept(byte)
    assert allowed(constraint) == [END_TOKEN]
    assert not constraint.allows(ord("x"))
    constraint.accept(END_TOKEN)


def test_what_gets_too_complex_on_the_way_ends_its_request_alone() -> None:
    field = "structured_outputs.regex"
    grammar = Grammar("(a{1,1000}){1,1000}", kind="regex", param=field)
    params = SamplingParams(temperature=0.0, grammar=grammar)
    engine = make_engine("a" * 2000)
    failure = failed(run_one(engine, ask("x", sampling=params, limits=Limits(max_tokens=2000))))
    assert (failure.code, failure.param, failure.retryable) == ("invalid_request", field, False)
    assert "complex" in failure.message
    assert text_of(run_one(make_engine("hi"), ask("b"))) == "hi"


def test_an_engine_keeps_to_a_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}}}
    params = SamplingParams(temperature=0.0, grammar=of_schema(schema | {"required": ["a"]}))
    events = run_one(make_engine('{"a": 7}'), ask("x", sampling=params))
    assert text_of(events) == '{"a": 7}'
    assert finished(events).reason == "stop"
    events = run_one(make_engine("hello there"), ask("x", sampling=params))
    assert faults(schema, json.loads(text_of(events))) == []


def test_it_may_sleep_until_a_trigger() -> None:
    grammar = Grammar(
        'start: "=>" %json {"type": "integer", "maximum": 5, "minimum": 5}',
        lazy=True,
        triggers=(GrammarTrigger("word", "=>"),),
        kind="lark",
    )
    params = SamplingParams(temperature=0.0, grammar=grammar)
    events = run_one(make_engine("so => nonsense"), ask("x", sampling=params))
    assert re.fullmatch(r"so =>\s*5", text_of(events))


def test_published_ids_go_through_it_again() -> None:
    from inference.engine.contract import Resume
    from tests.engine.driving import ids_of

    params = SamplingParams(temperature=1.0, grammar=of_schema({"enum": ["abc", "abd", "x"]}))
    whole = run_one(make_engine('"abq"'), ask("a", sampling=params))
    for num in range(1, 5):
        draws = sum(event.draws for event in whole[1 : num + 1])  # type: ignore[union-attr]
        resume = Resume(ids_of(whole)[:num], draws)
        rest = run_one(make_engine('"abq"'), ask("a", sampling=params, resume=resume))
        assert ids_of(rest) == ids_of(whole)[num:]
