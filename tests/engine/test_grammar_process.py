"""What takes too much to compile is found out in a child, which dies of it alone."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from llguidance import LLMatcher

from inference.engine.contract import SequenceRequest
from inference.engine.grammar_process import TOO_MUCH, GrammarProcess
from inference.engine.guidance import compile_grammar, vocabulary_of
from inference.engine.kept_grammars import KeptGrammars
from inference.engine.matchers import NO_VALUE
from inference.engine.mock_tokenizer import MockTokenizer
from inference.engine.pipeline import build_pipeline
from inference.protocol.params import Grammar, SamplingParams
from llamaweb.lib.errors import InvalidError
from tests.engine.driving import make_engine, run_one, text_of
from tests.engine.test_schema_bounds import COPIED
from tests.worker.conftest import generate

TOKENIZER = MockTokenizer()
SOME = {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(20)}}
QUICK_S = 0.3


def source_of(schema: Any) -> str:
    return LLMatcher.grammar_from_json_schema(json.dumps(schema))


@pytest.fixture
def process() -> Iterator[GrammarProcess]:
    process = GrammarProcess(vocabulary_of(TOKENIZER).words, compile_s=QUICK_S)
    yield process
    process.close()


def child_of(process: GrammarProcess) -> int:
    assert process._child is not None
    return process._child.pid


def test_what_can_be_compiled_has_no_problem(process: GrammarProcess) -> None:
    assert process.problem(source_of(SOME)) == ""
    assert process.problem(source_of({"type": "integer", "minimum": 3, "maximum": 1})) == NO_VALUE
    assert process.problem("nonsense")


def test_one_that_takes_too_long_ends_the_child_and_the_next_has_another(
    process: GrammarProcess,
) -> None:
    assert process.problem(source_of(SOME)) == ""
    first = child_of(process)
    assert process.problem(source_of(COPIED[0])) == TOO_MUCH
    assert process.problem(source_of(SOME)) == ""
    assert child_of(process) != first


def test_one_that_takes_too_much_memory() -> None:
    small = GrammarProcess(vocabulary_of(TOKENIZER).words, compile_bytes=1024 * 1024)
    assert small.problem(source_of({"type": "null"})) == ""
    assert small.problem(source_of({"enum": [f"value {n}" for n in range(5000)]})) == TOO_MUCH
    small.close()


def test_a_child_that_was_gone_already_is_no_verdict(process: GrammarProcess) -> None:
    assert process.problem(source_of(SOME)) == ""
    os.kill(child_of(process), signal.SIGKILL)
    assert process.problem(source_of(SOME)) == ""


@pytest.fixture
def quick(process: GrammarProcess, monkeypatch: pytest.MonkeyPatch) -> GrammarProcess:
    monkeypatch.setattr("inference.engine.guidance.grammar_process", lambda _: process)
    monkeypatch.setattr("inference.engine.guidance._KEPT", KeptGrammars())
    return process


@pytest.mark.parametrize("schema", COPIED)
def test_a_schema_whose_parts_are_copied_many_times_is_refused_with_its_path(
    schema: Any, quick: GrammarProcess
) -> None:
    whole = {"type": "object", "properties": {"ok": SOME, "bad": schema}}
    if "$defs" in schema:
        whole["$defs"] = schema["$defs"]
        schema = {name: value for name, value in schema.items() if name != "$defs"}
        whole["properties"] = {"ok": SOME, "bad": schema}
    with pytest.raises(InvalidError) as caught:
        compile_grammar(Grammar(json.dumps(whole), kind="json_schema", param="s"), TOKENIZER)
    assert TOO_MUCH in caught.value.message
    assert (caught.value.param or "").startswith(("s.properties.bad", "s.$defs.a"))


def test_the_engine_copies_what_was_compiled_before(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {**SOME, "required": ["p0"], "additionalProperties": False}
    grammar = Grammar(json.dumps(schema), kind="json_schema", param="s")
    pipeline = build_pipeline(TOKENIZER)
    prepared = pipeline.prepare(generate(sampling=SamplingParams(temperature=0.0, grammar=grammar)))
    pipeline.close()
    assert isinstance(prepared, SequenceRequest)
    monkeypatch.setattr("inference.engine.guided.compile_grammar", None)  # can't be called
    assert text_of(run_one(make_engine('{"p0": 7}'), prepared)) == '{"p0": 7}'
