"""llama.cpp's grammars: it reads what our reader lets through, and nothing it says breaks out."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.engine import llama_grammar
from inference.engine.constraints import ConstraintError
from inference.engine.contract import Resume
from inference.engine.engine import Engine
from inference.protocol.events import Delta
from inference.protocol.params import Grammar, GrammarTrigger, Limits, SamplingParams
from inference.text.gbnf import parse_gbnf
from llamaweb.lib.errors import InvalidError
from tests.engine.driving import draws_of, failed, finished, ids_of, run_one, text_of
from tests.model.conftest import AskChat
from tests.text.grammars import BAD, GOOD

pytestmark = pytest.mark.model

COLOURS = 'root ::= "red" | "green" | "blue"'
JSON = r"""
root ::= "{" ws "\"name\":" ws string "," ws "\"age\":" ws [0-9]{1,3} ws "}"
string ::= "\"" [^"\\\x00-\x1f]{1,20} "\""
ws ::= " "?
"""
QUESTION = "Which colour has the sky?"


def sampling(text: str, **fields: object) -> SamplingParams:
    return SamplingParams(temperature=0.0, grammar=Grammar(text), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", GOOD)
def test_it_reads_what_we_read(engine: Engine, text: str) -> None:
    grammar = engine._backend.grammar(text)
    grammar.close()


# Pieces of the syntax in any order: most is refused here, and what isn't must be read there.
PIECES = st.sampled_from(
    [
        *('"a"', '"b"', "[a-c]", "[^x]", ".", "(", ")", "|", "*", "+", "?", "{2}", "{0,3}"),
        *("{2,}", " ", "\n", "x", "y", "root", "\nx ::= ", "\ny ::= ", '""', "<[5]>", "# c\n"),
    ]
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(PIECES, max_size=12).map("".join))
def test_nothing_that_we_read_is_refused_there(engine: Engine, body: str) -> None:
    text = f"root ::= {body}"
    try:
        parse_gbnf(text, lambda _: False)
    except InvalidError:
        return
    engine._backend.grammar(text).close()


def test_bad_grammars_never_get_there(engine: Engine, ask_chat: AskChat) -> None:
    for text in BAD[2:]:
        with pytest.raises(InvalidError):
            engine.add(ask_chat("a", QUESTION, sampling=sampling(text)))
    assert not engine.has_work


def test_a_refused_token_ends_nothing(engine: Engine) -> None:
    tokenizer = engine._backend.tokenizer
    grammar = engine._backend.grammar('root ::= "yes"')
    end = tokenizer.end_tokens[0]
    (yes,) = tokenizer.tokenize("yes", add_special=False, parse_special=False)
    for token in (end, *tokenizer.tokenize("no", add_special=False, parse_special=False)):
        assert not grammar.allows(token)
        with pytest.raises(ConstraintError):
            grammar.accept(token)
    grammar.accept(yes)
    assert grammar.allows(end)
    grammar.close()
    grammar.close()


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_the_answer_is_one_of_them(engine: Engine, ask_chat: AskChat, temperature: float) -> None:
    params = SamplingParams(temperature=temperature, grammar=Grammar(COLOURS))
    events = run_one(engine, ask_chat("a", QUESTION, sampling=params, seed=3))
    assert text_of(events) in ("red", "green", "blue")
    assert finished(events).reason == "stop"


def test_a_grammar_that_takes_too_long_ends_its_request(
    engine: Engine, ask_chat: AskChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_grammar, "MAX_MASK_S", 0.02)
    slow = sampling("root ::= ((([a-z]+){1,12}){1,12}){1,12} <[2]>", ignore_eos=True)
    failure = failed(run_one(engine, ask_chat("a", QUESTION, sampling=slow)))
    assert "ambiguous" in failure.message
    assert text_of(run_one(engine, ask_chat("b", QUESTION, sampling=sampling(COLOURS))))


def test_json_comes_out_whole(engine: Engine, ask_chat: AskChat) -> None:
    request = ask_chat("a", "Tell me about Ann.", sampling=sampling(JSON))
    events = run_one(engine, request)
    assert re.fullmatch(r'\{ ?"name": ?"[^"]+", ?"age": ?\d{1,3} ?\}', text_of(events))


def test_the_same_seed_goes_on_within_it(engine: Engine, ask_chat: AskChat) -> None:
    params = SamplingParams(temperature=1.2, grammar=Grammar(JSON))
    whole = run_one(engine, ask_chat("a", "Tell me about Ann.", sampling=params, seed=5))
    deltas = [event for event in whole if isinstance(event, Delta)][:6]
    assert draws_of(whole) > len(ids_of(whole))  # something was refused
    resume = Resume(ids_of(list(deltas)), draws_of(list(deltas)))
    again = ask_chat("b", "Tell me about Ann.", sampling=params, seed=5, resume=resume)
    assert ids_of(run_one(engine, again)) == ids_of(whole)[6:]


def test_a_trigger_inside_tokens_wakes_it(engine: Engine, ask_chat: AskChat) -> None:
    free = run_one(engine, ask_chat("a", QUESTION, limits=Limits(max_tokens=6)))
    pieces = [engine._backend.tokenizer.piece(token) for token in ids_of(free)]
    first, *rest = (piece.decode() for piece in pieces)
    trigger = rest[0][1:] + rest[1]  # begins behind a token's first letter, ends with the next one
    assert len(rest[0]) > 1
    grammar = Grammar(
        f'root ::= "{trigger}" "!!"', lazy=True, triggers=(GrammarTrigger("word", trigger),)
    )
    params = SamplingParams(temperature=0.0, grammar=grammar)
    events = run_one(engine, ask_chat("b", QUESTION, sampling=params))
    assert text_of(events) == first + rest[0][:1] + trigger + "!!"
    assert finished(events).reason == "stop"
