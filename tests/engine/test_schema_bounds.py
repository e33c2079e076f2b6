"""Whatever a schema or a grammar says: it is compiled or refused within its bounds."""

from __future__ import annotations

import json
import os
import resource
import signal
import string
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.engine import guidance
from inference.engine.grammar_process import GrammarProcess
from inference.engine.guidance import compile_grammar
from inference.engine.mock_tokenizer import MockTokenizer
from inference.protocol.params import Grammar, GrammarKind
from inference.text.lark import refuse_unbounded
from inference.text.schema.prepare import MAX_SCHEMA_CHARS
from llamaweb.lib.errors import InvalidError
from tests.text.schema.suite import SMALL, WORD

MAX_CPU_S = 10.0  # it is below 2 on an idle machine; what is without a bound takes minutes
QUICK_S = 0.5  # many of them are compiled
NUM_MULTIPLIED = 20
MAX_BYTES = 64 * 1024 * 1024
CHILD_TIMEOUT_S = 600
ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = MockTokenizer()
LETTERS = string.ascii_lowercase
MANY = {"enum": list(range(10_000))}


def nested(levels: int) -> Any:
    """Lists in lists, each of many."""
    schema: Any = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": 50}
    return schema


def ladder(word: str, last: Any, levels: int = 60) -> Any:
    """Definitions that each name the next one twice."""
    rungs = {f"d{n}": {word: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**rungs, f"d{levels}": last}}


def chain(make: Callable[[Any], Any], length: int = 2000) -> Any:
    """Definitions that each name the next one, the last one the first."""
    links = {f"d{n}": make({"$ref": f"#/$defs/d{(n + 1) % length}"}) for n in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": links}


def ways(num: int, deep: int) -> Any:
    """`num` ** `deep` combinations."""
    one = [{"properties": {f"p{n}": SMALL}} for n in range(num)]
    return {"allOf": [{"anyOf": one}] * deep}


def optional(num: int) -> Any:
    return {"type": "object", "properties": {f"p{n}": WORD for n in range(num)}}


def pattern(text: str, **more: Any) -> Any:
    return {"type": "string", "pattern": text, **more}


def meeting_by_reference(levels: int) -> str:
    """Terminals that each want the one before to match at two places."""
    rungs = [f'A{n}: (A{n - 1} "x") & ("y" A{n - 1})' for n in range(1, levels)]
    return "\n".join([f"start: A{levels - 1}", "A0: /.*a.{20}/", *rungs])


def names(num: int) -> list[str]:
    return [f"n{n}" for n in range(num)]


# The compiler counts its steps, but in each of these it copies thousands of names.
COPIED: list[Any] = [
    {
        "anyOf": [{"$ref": "#/$defs/a", "type": "object"}] * 1200,
        "$defs": {"a": {"required": names(9000)}},
    },
    {"enum": list(range(7000)), "required": names(9000)},
    {
        "allOf": [
            {"required": names(9000)},
            {"oneOf": [{"properties": {"t": {"const": n}}, "required": ["t"]} for n in range(700)]},
        ]
    },
]
MEETING = {"allOf": [pattern(f".*{c}.{{20}}") for c in string.ascii_lowercase[:16]]}
SCHEMAS: list[Any] = [
    *COPIED,
    nested(8),
    nested(30),
    ladder("anyOf", {"type": "null"}),
    ladder("allOf", {"type": "integer"}),
    ladder("oneOf", {"type": "integer"}),
    chain(lambda link: link),
    chain(lambda link: {"oneOf": [link, {"type": "null"}]}),
    chain(lambda link: {"allOf": [link], "minimum": 3}),
    chain(lambda link: {"type": "object", "properties": {"a": link}}),
    ways(10, 6),
    ways(4, 12),
    optional(300),
    optional(3000),
    {"enum": [f"value {n}" for n in range(5000)]},
    {"type": "string", "minLength": 10**6},
    {"type": "string", "maxLength": 2**31 - 1},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2**31 - 1},
    {"type": "array", "items": optional(50), "maxItems": 50_000},
    pattern("(a{1,1000}){1,1000}"),
    pattern(r"(((\w{100}){100}){100}){100}"),
    pattern("^(.{0,1000}x){0,1000}$"),
    pattern("(a|b)*a(a|b){20}$"),
    pattern("a.*b.*c", maxLength=100_000),
    MEETING,
    {"multipleOf": 9973},
    {"allOf": [{"multipleOf": 99}, {"multipleOf": 101}]},
    {"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]},
    {"$ref": "#"},
    *({word: [{"$ref": "#/$defs/a"}] * 2400, "$defs": {"a": MANY}} for word in ("oneOf", "anyOf")),
    {"anyOf": [{"multipleOf": 1}] * 4900},
]
TEXTS: list[tuple[GrammarKind, str]] = [
    ("regex", "(a{1,1000}){1,1000}"),
    ("regex", "(" * 20_000 + "a" + ")" * 20_000),
    ("regex", "(" * 200 + "a" + ")*" * 200),
    ("regex", r"\w{1,5000}\d{1,5000}"),
    ("lark", "start: " + "(" * 20_000 + '"a"' + ")" * 20_000),
    ("lark", 'start: (("a"{1,1000}){1,1000}){1,1000}'),
    ("lark", 'start: start start | "a" |'),
    ("lark", "start: " + " ".join("x" for _ in range(20_000)) + '\nx: "a"?'),
    ("lark", "start: A\nA: " + " & ".join(f"/.*{a}.*{b}.*/" for a in LETTERS for b in LETTERS)),
    ("lark", meeting_by_reference(16)),
    ("lark", "start: %json " + json.dumps(MEETING)),
    ("lark", "start: %lark {\nstart: A\nA: " + " & ".join(["/(a|b)*a(a|b){18}/"] * 12) + "\n}"),
    ("lark", 'start: %regex {"substring_words": "' + "a b " * 10_000 + '"}'),
    ("lark", "start: A\nA: ~(/(a|b)*a(a|b){18}/) & /(a|b)*b(a|b){17}/"),
]


@st.composite
def multiplied(draw: st.DrawFn) -> Any:
    """Few parts, each of them many times, in each other's place."""
    sizes = st.sampled_from([1, 7, 60, 400])
    some: list[Any] = [
        {"required": names(draw(sizes) * 10)},
        {"enum": list(range(draw(sizes) * 10))},
        {"properties": dict.fromkeys(names(draw(sizes)), SMALL)},
        {"$ref": "#/$defs/a"},
        {"$ref": "#/$defs/b", "type": "object"},
        WORD,
    ]
    parts = st.sampled_from(some)

    def level(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        words = st.sampled_from(["anyOf", "oneOf", "allOf"])
        lists = st.builds(lambda items, num: items * num, st.lists(inner, min_size=1), sizes)
        beside = st.builds(lambda word, items, more: {**more, word: items}, words, lists, parts)
        return beside | inner.map(lambda item: {"properties": {"a": item, "b": item}})

    schema = draw(level(level(parts)))
    return {**schema, "$defs": {"a": draw(level(parts)), "b": draw(parts)}}


def hostile() -> list[Grammar]:
    schemas = [Grammar(json.dumps(schema), kind="json_schema", param="s") for schema in SCHEMAS]
    return schemas + [Grammar(text, kind=kind, param="s") for kind, text in TEXTS]


def check_path(error: InvalidError, param: str) -> None:
    """A refusal names the field, or something in it."""
    assert (error.param or "").startswith(param)


def compile_within_limits(grammar: Grammar) -> None:
    """Runs in a process of its own: the kernel ends it when a bound is passed."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MAX_BYTES, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)  # of CPU; its signal ends the process
    try:
        if grammar.kind == "lark":
            refuse_unbounded(grammar.text, param=grammar.param)
        compile_grammar(grammar, TOKENIZER)
    except InvalidError as error:
        check_path(error, "s")
    signal.setitimer(signal.ITIMER_PROF, 0)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@settings(max_examples=NUM_MULTIPLIED, deadline=None, derandomize=True, database=None)
@given(multiplied().map(json.dumps).filter(lambda text: len(text) <= MAX_SCHEMA_CHARS))
def compile_multiplied(text: str) -> None:
    print(len(text), flush=True)
    compile_within_limits(Grammar(text, kind="json_schema", param="s"))


def main() -> None:
    compile_grammar(Grammar(json.dumps(optional(50)), kind="json_schema"), TOKENIZER)  # warm
    if sys.argv[1:] == ["multiplied"]:
        process = GrammarProcess(guidance.vocabulary_of(TOKENIZER).words, compile_s=QUICK_S)
        guidance.grammar_process = lambda _: process  # type: ignore[assignment]
        compile_multiplied()
        process.close()
        return
    for number, grammar in enumerate(hostile()):
        print(number, flush=True)
        compile_within_limits(grammar)


def run_alone(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.engine.test_schema_bounds", *args],
        cwd=ROOT,
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},  # each is 64 MiB of address space
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
        check=False,
    )


def test_hostile_ones_are_compiled_or_refused_within_their_bounds() -> None:
    done = run_alone()
    numbers = done.stdout.split()
    assert (done.returncode, len(numbers)) == (0, len(hostile())), (
        numbers[-1:],
        done.stderr[-800:],
    )


def test_what_is_multiplied_is_compiled_or_refused_within_its_bounds() -> None:
    done = run_alone("multiplied")
    assert done.returncode == 0, (done.stdout.split()[-1:], done.stderr[-800:])
    assert len(done.stdout.split()) >= NUM_MULTIPLIED


KEYWORDS = st.sampled_from(
    [
        *("type", "enum", "const", "anyOf", "oneOf", "allOf", "items", "prefixItems", "properties"),
        *("patternProperties", "additionalProperties", "required", "minimum", "maximum", "pattern"),
        *("exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems"),
        *("minProperties", "maxProperties", "format", "$ref", "not", "uniqueItems", "$defs"),
    ]
)
WORDS = st.sampled_from(
    [
        *("string", "integer", "object", "array", "number", "null", "date", "ipv6", "a", "^a.*b$"),
        *("[a-z]+", "(a|b){1,9}", "#", "#/$defs/a", "#/properties/a", "#/anyOf/0", "\ud800", "é"),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | WORDS
JSONISH = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS | WORDS, inner, max_size=5)
    ),
    max_leaves=25,
)
LIKELY = st.recursive(
    st.sampled_from([{"type": "integer"}, WORD, SMALL, {"$ref": "#"}, {"$ref": "#/$defs/a"}, True]),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries(
            {"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)},
            optional={"additionalProperties": inner, "required": st.just(["a", "z"])},
        ),
        st.fixed_dictionaries(
            {"$defs": st.fixed_dictionaries({"a": inner}), "$ref": st.just("#/$defs/a")}
        ),
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("schemas", [JSONISH, LIKELY])
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_schema_is_compiled_or_refused_by_path(schemas: Any, data: Any) -> None:
    schema = data.draw(st.dictionaries(KEYWORDS, schemas, max_size=5) | schemas)
    grammar = Grammar(json.dumps(schema), kind="json_schema", param="json_schema")
    try:
        matcher = compile_grammar(grammar, TOKENIZER)
    except InvalidError as error:
        check_path(error, "json_schema")
    else:
        assert not matcher.is_error()


if __name__ == "__main__":
    main()
