"""A lazy grammar sleeps until its trigger, and then sees the answer from there on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inference.engine.constraints import ConstraintError
from inference.engine.contract import Resume, Thoughts
from inference.engine.lazy_grammar import LazyGrammar, spell
from inference.engine.mock_grammar import MockGrammar
from inference.engine.mock_tokenizer import MockTokenizer
from inference.engine.thought_guard import ThoughtGuard
from inference.protocol.params import (
    MAX_TRIGGERS,
    Grammar,
    GrammarTrigger,
    SamplingParams,
    TriggerKind,
)
from inference.text.answer.families import FAMILIES
from inference.text.answer.reasoning_tags import THINK
from llamaweb.lib.errors import InvalidError
from tests.engine.driving import ask, failed, finished, ids_of, make_engine, run_one, text_of
from tests.text.byte_tokenizer import MERGED, ByteTokenizer

CALL = 'root ::= "<call>" [a-z]+ "</call>"'


def lazily(text: str, *triggers: GrammarTrigger) -> SamplingParams:
    return SamplingParams(temperature=0.0, grammar=Grammar(text, lazy=True, triggers=triggers))


def word(value: str) -> GrammarTrigger:
    return GrammarTrigger("word", value)


def test_it_sleeps_before_its_trigger_and_holds_behind_it() -> None:
    sampling = lazily(CALL, word("<call>"))
    events = run_one(make_engine("12 <call>f7"), ask("a", sampling=sampling))
    text = text_of(events)
    assert text.startswith("12 <call>f")
    assert text.endswith("</call>")
    assert text[10:-7].isalpha()
    assert finished(events).reason == "stop"


def test_without_its_trigger_nothing_is_constrained() -> None:
    events = run_one(make_engine("12 34 <cal"), ask("a", sampling=lazily(CALL, word("<call>"))))
    assert text_of(events) == "12 34 <cal"


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("pattern", "[0-9]+(<call>)", "12<call>f</call>"),
        ("pattern", "<call>", "1 <call>f</call>"),
        ("pattern_full", "1+(<call>)", "11<call>f</call>"),
    ],
)
def test_patterns(kind: TriggerKind, value: str, said: str) -> None:
    sampling = lazily('root ::= "<call>" "f" "</call>"', GrammarTrigger(kind, value))
    reply = said[: said.index("f")] + "?"
    assert text_of(run_one(make_engine(reply), ask("a", sampling=sampling))) == said


def test_a_pattern_of_the_whole_text_ignores_parts() -> None:
    trigger = GrammarTrigger("pattern_full", "1+(<call>)")
    assert text_of(run_one(make_engine("x1<call>?"), ask("a", sampling=lazily(CALL, trigger)))) == (
        "x1<call>?"
    )


def test_a_token_wakes_it() -> None:
    trigger = GrammarTrigger("token", token_id=ord("<"))
    events = run_one(make_engine("1<x"), ask("a", sampling=lazily('root ::= "<" "yes"', trigger)))
    assert text_of(events) == "1<yes"


def test_a_word_of_one_token_must_be_preserved() -> None:
    with pytest.raises(InvalidError, match="preserved_tokens") as caught:
        LazyGrammar(MockGrammar('root ::= "<"'), [word("<")], MockTokenizer(), frozenset())
    assert caught.value.param == "grammar_triggers"
    LazyGrammar(MockGrammar('root ::= "<"'), [word("<")], MockTokenizer(), {ord("<")})


@pytest.mark.parametrize("blanks", ["", "\n\n"])
@pytest.mark.parametrize("opened", ["", "<think>"])
def test_the_first_text_may_stand_behind_reasoning(opened: str, blanks: str) -> None:
    trigger = GrammarTrigger("start", "<call>")
    form = replace(FAMILIES["hermes"], reasoning=THINK)
    request = replace(
        ask("a", sampling=lazily('root ::= "<call>" "f" "</call>"', trigger)),
        opened=opened,
        thoughts=Thoughts(form, tuple(b"</think>")),
    )
    thought = "" if opened else "<think>"
    thought += f"<call>q</call></think>{blanks}"
    assert text_of(run_one(make_engine(f"{thought}<call>q"), request)) == (
        f"{thought}<call>f</call>"
    )
    said = f"{thought}So: <call>q"
    assert text_of(run_one(make_engine(said), request)) == said


def test_the_first_text_may_begin_in_the_token_that_ends_reasoning() -> None:
    pieces = [b"<th", b"ink>1", b"</think", b">\n<ca"]

    class Pieces(ByteTokenizer):
        vocab_len = 256 + len(pieces)

        def piece(self, token_id: int, *, special: bool = False) -> bytes:
            return pieces[token_id - 256] if token_id >= 256 else bytes([token_id])

    form = replace(FAMILIES["hermes"], reasoning=THINK)
    guard = ThoughtGuard(Thoughts(form, (1,)), Pieces())
    grammar = MockGrammar('root ::= "<call>" "f"')
    lazy = LazyGrammar(grammar, [GrammarTrigger("start", "<call>")], Pieces(), frozenset(), guard)
    for token in (*range(256, Pieces.vocab_len), *b"ll>"):
        assert lazy.allows(ord("q"))
        guard.accept(token)
        lazy.accept(token)
    assert lazy.allows(ord("f"))
    assert not lazy.allows(ord("q"))


def test_a_trigger_inside_a_token_is_fed_from_its_beginning() -> None:
    grammar = MockGrammar('root ::= "He" "y"')
    lazy = LazyGrammar(grammar, [word("Hey")], ByteTokenizer(), frozenset())
    for token in (ord("a"), MERGED, ord("y")):  # the merged token is "\nHe"
        assert lazy.allows(token)
        lazy.accept(token)
    assert grammar.allows(256)
    assert not lazy.allows(ord("x"))


def test_what_woke_it_must_fit() -> None:
    sampling = lazily('root ::= "<tool>"', word("<call>"))
    failure = failed(run_one(make_engine("<call>x"), ask("a", sampling=sampling)))
    assert "grammar" in failure.message
    assert not failure.retryable


@pytest.mark.parametrize(
    "triggers",
    [
        (),
        (word(""),),
        (GrammarTrigger("pattern", "("),),
        tuple(word(f"w{index}") for index in range(MAX_TRIGGERS + 1)),
    ],
)
def test_bad_triggers_are_refused_by_name(triggers: tuple[GrammarTrigger, ...]) -> None:
    engine = make_engine()
    with pytest.raises(InvalidError) as caught:
        engine.add(ask("a", sampling=lazily(CALL, *triggers)))
    assert caught.value.param == "grammar_triggers"
    assert engine.free_slots == 4


@pytest.mark.parametrize("num_published", range(1, 14))
def test_a_resumed_answer_is_awake_or_asleep_as_before(num_published: int) -> None:
    sampling = lazily('root ::= "<call>" "f" "</call>"', word("<call>"))
    whole = run_one(make_engine("12 <call>q"), ask("a", sampling=sampling))
    resume = Resume(ids_of(whole)[:num_published], 0)
    rest = run_one(make_engine("12 <call>q"), ask("a", sampling=sampling, resume=resume))
    assert ids_of(rest) == ids_of(whole)[num_published:]


def test_bytes_are_spelled_by_the_longest_tokens() -> None:
    assert spell(b"a\nHe", ByteTokenizer()) == [ord("a"), MERGED]

    class Poor(ByteTokenizer):
        vocab_len = 5

    with pytest.raises(ConstraintError):
        spell(b"a", Poor())
