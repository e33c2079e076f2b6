"""Where a generation ends by number, and what is refused before it begins."""

from __future__ import annotations

import pytest

from inference.engine.errors import failed_event
from inference.protocol.params import Limits, SamplingParams
from llamaweb.lib.errors import BusyError, InvalidError, TooLongError
from tests.engine.driving import (
    ask,
    backend_of,
    finished,
    ids_of,
    make_engine,
    run,
    run_one,
    text_of,
)

FOREVER = SamplingParams(temperature=0.0, ignore_eos=True)


def test_a_prompt_of_the_whole_context_is_too_long() -> None:
    engine = make_engine(max_context=64)
    with pytest.raises(TooLongError) as caught:
        engine.add(ask("a", "x" * 64))
    assert (caught.value.prompt_tokens, caught.value.max_context) == (64, 64)
    assert failed_event(caught.value).code == "context_length_exceeded"
    assert dict(failed_event(caught.value).details) == {"n_prompt_tokens": 64, "n_ctx": 64}
    assert not engine.has_work
    assert finished(run_one(engine, ask("b", "x" * 63))).usage.completion_tokens == 1


def test_a_prompt_that_was_not_counted_to_the_end_says_so() -> None:
    error = TooLongError(prompt_tokens=64, max_context=64, at_least=True)
    assert error.message.startswith("request (at least 64 tokens)")
    assert dict(failed_event(error).details)["at_least"] == 1


def test_generation_ends_at_the_end_of_the_context() -> None:
    events = run_one(make_engine(max_context=256), ask("a", "8 tokens", sampling=FOREVER))
    assert finished(events).reason == "length"
    assert finished(events).usage.completion_tokens == 248


def test_max_tokens_zero_evaluates_the_prompt_and_says_nothing() -> None:
    engine = make_engine()
    events = run_one(engine, ask("a", "hello", limits=Limits(max_tokens=0)))
    assert finished(events).reason == "length"
    assert (text_of(events), ids_of(events)) == ("", ())
    assert finished(events).usage.completion_tokens == 0
    assert backend_of(engine).num_evaluated == 5
    assert run_one(engine, ask("b", "hello"))[0].cached_tokens == 4  # type: ignore[union-attr]


def test_a_huge_max_tokens_is_capped_by_the_context() -> None:
    limits = Limits(max_tokens=10**9)
    events = run_one(make_engine(max_context=128), ask("a", sampling=FOREVER, limits=limits))
    assert (finished(events).reason, finished(events).usage.completion_tokens) == ("length", 123)


def test_max_tokens_counts_tokens() -> None:
    events = run_one(make_engine("hello"), ask("a", limits=Limits(max_tokens=3)))
    assert (text_of(events), finished(events).reason) == ("hel", "length")


def test_the_end_token_is_not_counted() -> None:
    events = run_one(make_engine("hello"), ask("a"))
    assert (finished(events).reason, finished(events).usage.completion_tokens) == ("stop", 5)


@pytest.mark.parametrize(
    ("request_kwargs", "param"),
    [
        ({"text": ""}, "prompt"),
        ({"limits": Limits(max_tokens=-1)}, "max_tokens"),
        ({"sampling": SamplingParams(repeat_penalty=0.0)}, "repeat_penalty"),
        ({"sampling": SamplingParams(repeat_last_n=-1)}, "repeat_last_n"),
        ({"sampling": SamplingParams(num_probs=21)}, "logprobs"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(
    request_kwargs: dict[str, object], param: str
) -> None:
    engine = make_engine()
    with pytest.raises(InvalidError) as caught:
        engine.add(ask("a", **request_kwargs))  # type: ignore[arg-type]
    assert caught.value.param == param
    assert engine.free_slots == 4
    assert not engine.has_work


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    import dataclasses

    engine = make_engine()
    for bad in (-1, 257):
        with pytest.raises(InvalidError):
            engine.add(dataclasses.replace(ask("a"), tokens=(1, bad)))


def test_a_full_engine_is_busy_and_a_repeated_id_is_refused() -> None:
    engine = make_engine(num_slots=2)
    engine.add(ask("a"))
    with pytest.raises(InvalidError):
        engine.add(ask("a"))
    engine.add(ask("b"))
    assert engine.free_slots == 0
    with pytest.raises(BusyError):
        engine.add(ask("c"))
    assert set(run(engine)) == {"a", "b"}


def test_a_suspect_runs_alone() -> None:
    engine = make_engine()
    engine.add(ask("a", alone=True))
    assert engine.free_slots == 0
    with pytest.raises(BusyError):
        engine.add(ask("b"))
    run(engine)
    engine.add(ask("b"))
    with pytest.raises(BusyError):
        engine.add(ask("c", alone=True))
