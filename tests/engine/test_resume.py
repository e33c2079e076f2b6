"""A generation goes on from published ids as if nothing had happened."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.engine.contract import Resume
from inference.protocol.events import Delta, Event
from inference.protocol.params import Limits, SamplingParams
from tests.engine.driving import (
    GREEDY,
    ask,
    draws_of,
    finished,
    ids_of,
    make_engine,
    run_one,
    started,
    text_of,
)

REPLY = "ok 😺 漢字, beta gamma delta é end of it"
HOT = SamplingParams(temperature=10.0, samplers=("penalties", "temperature"), repeat_penalty=1.1)
LIMITS = Limits(max_tokens=40, stop=("beta gamma epsilon", "qq"))


def published(events: list[Event], num_deltas: int) -> tuple[str, Resume]:
    """What readers have, and what the next engine gets, after that many tokens.

    A delta without tokens comes in one step with the terminal event, so it is published with it.
    """
    deltas: list[Event] = [e for e in events if isinstance(e, Delta) and e.token_ids][:num_deltas]
    return text_of(deltas), Resume(ids_of(deltas), draws_of(deltas))


MIROSTAT = SamplingParams(temperature=10.0, mirostat=2, mirostat_tau=3.0)
XTC = SamplingParams(
    temperature=9.0, samplers=("temperature", "xtc"), xtc_probability=0.5, xtc_threshold=0.003
)
SAMPLINGS = {"greedy": GREEDY, "warm": SamplingParams(), "hot": HOT, "miro": MIROSTAT, "xtc": XTC}


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS.keys())
@settings(max_examples=30, deadline=None)
@given(num_deltas=st.integers(0, 40), seed=st.integers(0, 2**32 - 2))
def test_the_rest_is_the_rest(sampling: SamplingParams, num_deltas: int, seed: int) -> None:
    whole = run_one(make_engine(REPLY), ask("a", sampling=sampling, limits=LIMITS, seed=seed))
    text, resume = published(whole, num_deltas)
    request = ask("a", sampling=sampling, limits=LIMITS, seed=seed, resume=resume)
    rest = run_one(make_engine(REPLY), request)
    assert text + text_of(rest) == text_of(whole)
    assert resume.token_ids + ids_of(rest) == ids_of(whole)
    assert resume.draws + draws_of(rest) == draws_of(whole)
    assert finished(rest).reason == finished(whole).reason
    assert finished(rest).usage.completion_tokens == finished(whole).usage.completion_tokens
    assert started(rest).prompt_tokens == started(whole).prompt_tokens


def test_published_ids_are_not_prompt_tokens() -> None:
    engine = make_engine("hello world")
    run_one(engine, ask("before", "a prompt"))
    request = ask("a", "a prompt", resume=Resume(tuple(b"hello "), 0))
    events = run_one(engine, request)
    assert text_of(events) == "world"
    assert started(events).prompt_tokens == 8
    assert started(events).cached_tokens <= 8
    assert finished(events).usage.completion_tokens == 11


def test_an_answer_that_had_reached_its_limit_just_ends() -> None:
    resume = Resume(tuple(b"hel"), 0)
    events = run_one(make_engine("hello"), ask("a", limits=Limits(max_tokens=3), resume=resume))
    assert text_of(events) == ""
    assert (finished(events).reason, finished(events).usage.completion_tokens) == ("length", 3)


def test_an_answer_that_had_met_its_stop_string_just_ends() -> None:
    resume = Resume(tuple(b"hello"), 0)
    events = run_one(make_engine("hello"), ask("a", limits=Limits(stop=("lo",)), resume=resume))
    assert finished(events).stop_string == "lo"
    assert text_of(events) == ""


def test_a_full_context_just_ends() -> None:
    engine = make_engine("hello", max_context=10)
    events = run_one(engine, ask("a", "12345", resume=Resume(tuple(b"abcde"), 0)))
    assert finished(events).reason == "length"
