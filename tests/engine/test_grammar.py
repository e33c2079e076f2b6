"""An answer within a grammar: one token is tested first, the vocabulary only after a refusal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inference.engine.constraints import ConstrainedSampler, ConstraintError
from inference.engine.mock_backend import MockBackend
from inference.engine.mock_grammar import MockGrammar
from inference.engine.mock_tokenizer import END_TOKEN, MockTokenizer
from inference.engine.picks import GreedySampler, Logits
from inference.protocol.params import Grammar, Limits, SamplingParams
from llamaweb.lib.errors import InvalidError
from tests.engine.driving import (
    ask,
    backend_of,
    draws_of,
    failed,
    finished,
    ids_of,
    make_engine,
    run_one,
    text_of,
)


def greedy(text: str, **fields: object) -> SamplingParams:
    return SamplingParams(temperature=0.0, grammar=Grammar(text), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("grammar", "reply", "said"),
    [
        ('root ::= "yes" | "no"', "yes", "yes"),
        ('root ::= "yes" | "no"', "no", "no"),
        ('root ::= "hello"', "xxxxx", "hello"),
        ('root ::= "hello"', "", "hello"),
        ("root ::= [a-c]+ [0-9]{2}", "abc12", "abc12"),
        ('root ::= "x" root | "."', "xx.", "xx."),
        ('root ::= "漢" "é"*', "漢éé", "漢éé"),
        ("root ::= [α-ω]", "λ", "λ"),
    ],
)
def test_the_answer_follows_it(grammar: str, reply: str, said: str) -> None:
    events = run_one(make_engine(reply), ask("a", "x", sampling=greedy(grammar)))
    assert text_of(events) == said
    assert finished(events).reason == "stop"


def test_the_model_cannot_end_before_the_grammar_does() -> None:
    events = run_one(make_engine("ab"), ask("a", sampling=greedy('root ::= "ab" [0-9] "!"')))
    assert len(text_of(events)) == 4
    assert text_of(events).startswith("ab")
    assert text_of(events).endswith("!")


def count_masks(engine_backend: MockBackend) -> list[int]:
    """How often each grammar of this backend looked at the whole vocabulary."""
    calls: list[int] = []
    make: Callable[[str], MockGrammar] = engine_backend.grammar  # type: ignore[assignment]

    def counted(text: str) -> MockGrammar:
        grammar = make(text)
        mask = grammar.mask

        def counting(logits: Logits) -> None:
            calls.append(1)
            mask(logits)

        grammar.mask = counting  # type: ignore[method-assign]
        return grammar

    engine_backend.grammar = counted  # type: ignore[method-assign]
    return calls


def test_the_vocabulary_is_looked_at_only_after_a_refused_token() -> None:
    engine = make_engine("hello")
    calls = count_masks(backend_of(engine))
    run_one(engine, ask("a", sampling=greedy('root ::= "hello"')))
    assert not calls
    run_one(engine, ask("b", sampling=greedy('root ::= "hullo"')))
    assert len(calls) == 1


def test_a_refused_token_draws_a_second_number() -> None:
    sampling = SamplingParams(grammar=Grammar('root ::= "hullo"'))
    events = run_one(make_engine("hello"), ask("a", sampling=sampling))
    assert text_of(events) == "hullo"
    assert draws_of(events) == 6


def test_probabilities_are_of_the_raw_logits_even_then() -> None:
    events = run_one(make_engine("a"), ask("a", sampling=greedy('root ::= "b"', num_probs=1)))
    entry = events[1].logprobs[0]  # type: ignore[union-attr]
    assert entry.chosen.token_id == ord("b")
    assert entry.top[0].token_id == ord("a")


def test_an_end_comes_even_where_it_is_forbidden_by_a_bias() -> None:
    sampling = greedy('root ::= "ab"', ignore_eos=True)
    events = run_one(make_engine("ab"), ask("a", sampling=sampling, limits=Limits(max_tokens=9)))
    assert (text_of(events), finished(events).reason) == ("ab", "stop")


def test_a_dead_end_fails_the_request_alone() -> None:
    sampling = greedy("root ::= <[7]>")  # the mock's grammars know no tokens
    failure = failed(run_one(make_engine("a"), ask("a", sampling=sampling)))
    assert (failure.code, failure.retryable) == ("engine_failed", False)
    assert "grammar" in failure.message


@pytest.mark.parametrize("text", ["root ::= (", "x", "%llguidance {}"])
def test_what_is_no_grammar_is_refused_by_name(text: str) -> None:
    engine = make_engine()
    with pytest.raises(InvalidError) as caught:
        engine.add(ask("a", sampling=greedy(text)))
    assert caught.value.param == "grammar"
    assert engine.free_slots == 4


def test_an_empty_grammar_is_none() -> None:
    assert text_of(run_one(make_engine("hi"), ask("a", sampling=greedy("")))) == "hi"


class Script:
    """A constraint that forces `tokens`, then forbids `banned`."""

    def __init__(self, tokens: bytes, banned: bytes = b"") -> None:
        self.left = list(tokens)
        self.banned = banned
        self.num_closed = 0

    def forced(self) -> int | None:
        return self.left[0] if self.left else None

    def allows(self, token_id: int) -> bool:
        return token_id not in self.banned if token_id < END_TOKEN else True

    def mask(self, logits: Logits) -> None:
        logits[list(self.banned)] = float("-inf")

    def accept(self, token_id: int) -> None:
        if self.left and self.left.pop(0) != token_id:
            raise ConstraintError("not the forced one")

    def close(self) -> None:
        self.num_closed += 1


def test_forced_tokens_and_masks_have_a_place() -> None:
    script = Script(b"ab", banned=b"x")
    sampler = ConstrainedSampler(GreedySampler(), [script, Script(b"")], MockTokenizer())
    logits = MockBackend()._noise[0].copy()
    logits[ord("x")] = 99.0
    said = []
    for _ in range(3):
        pick = sampler.pick(logits.copy())
        said.append(pick.token_id)
        sampler.accept(pick.token_id)
    assert bytes(said[:2]) == b"ab"
    assert said[2] == max(range(257), key=lambda t: logits[t] if t != ord("x") else -1)
    sampler.close()
    assert script.num_closed == 1


@pytest.mark.parametrize("end", ["abort", "drop", "finish"])
def test_grammars_are_freed_at_every_end(end: str) -> None:
    engine = make_engine("yes")
    made: list[MockGrammar] = []
    make = backend_of(engine).grammar

    def remembered(text: str) -> MockGrammar:
        made.append(make(text))  # type: ignore[arg-type]
        return made[-1]

    backend_of(engine).grammar = remembered  # type: ignore[method-assign]
    engine.add(ask("a", sampling=greedy('root ::= "yes"')))
    engine.step()
    if end == "abort":
        engine.abort("a", "user")
    elif end == "drop":
        engine.drop("a")
    while engine.has_work:
        engine.step()
    assert [grammar.is_closed for grammar in made] == [True]


def test_published_ids_go_through_the_grammar_again() -> None:
    from inference.engine.contract import Resume

    sampling = SamplingParams(grammar=Grammar('root ::= "hello" [0-9]'), temperature=1.0)
    whole = run_one(make_engine("hexlo"), ask("a", sampling=sampling))
    for num in range(1, 6):
        draws = sum(event.draws for event in whole[1 : num + 1])  # type: ignore[union-attr]
        resume = Resume(ids_of(whole)[:num], draws)
        rest = run_one(make_engine("hexlo"), ask("a", sampling=sampling, resume=resume))
        assert ids_of(rest) == ids_of(whole)[num:]
