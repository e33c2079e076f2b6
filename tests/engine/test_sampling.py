"""Defaults and order of llama-server, greedy, log probabilities."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inference.engine.mock_sampler import NumpySampler
from inference.engine.mock_tokenizer import END_TOKEN, MockTokenizer
from inference.engine.picks import GreedySampler
from inference.engine.sampling import DEFAULT_ORDER, Chain, resolve_chain
from inference.protocol.events import Delta
from inference.protocol.params import Limits, SamplingParams
from llamaweb.lib.errors import InvalidError
from tests.engine.driving import ask, draws_of, ids_of, make_engine, run_one, text_of

HOT = SamplingParams(temperature=10.0, samplers=("temperature",))


MAX_CONTEXT = 1000


def chain_of(**params: object) -> Chain:
    sampling = SamplingParams(**params)  # type: ignore[arg-type]
    return resolve_chain(sampling, MockTokenizer(), max_context=MAX_CONTEXT)


def test_defaults_are_llama_servers() -> None:
    chain = chain_of()
    assert chain.order == DEFAULT_ORDER
    assert (chain.temperature, chain.top_k, chain.top_p, chain.min_p) == (0.8, 40, 0.95, 0.05)
    assert (chain.repeat_last_n, chain.repeat_penalty, chain.typical_p) == (64, 1.0, 1.0)
    assert (chain.mirostat_tau, chain.mirostat_eta, chain.dry_base) == (5.0, 0.1, 1.75)
    assert chain.top_n_sigma == -1.0
    assert chain.history_len == 0
    assert not chain.is_greedy


@pytest.mark.parametrize("name", ["repeat_last_n", "dry_penalty_last_n"])
@pytest.mark.parametrize(
    ("given", "used"), [(0, 0), (MAX_CONTEXT, MAX_CONTEXT), (MAX_CONTEXT + 1, MAX_CONTEXT)]
)
def test_nothing_looks_back_further_than_the_context(name: str, given: int, used: int) -> None:
    assert getattr(chain_of(**{name: given}), name) == used
    assert getattr(chain_of(**{name: 2**31 - 1}), name) == MAX_CONTEXT


def test_sampler_names_may_be_written_in_other_ways() -> None:
    assert chain_of(samplers=("top-k", "nucleus", "temp", "typ", "MINP", "nonsense")).order == (
        "top_k",
        "top_p",
        "temperature",
        "typ_p",
        "min_p",
    )
    assert chain_of(samplers=()).order == ()


@pytest.mark.parametrize(
    ("params", "greedy"),
    [
        ({"temperature": 0.0}, True),
        ({"temperature": -1.0}, True),
        ({"temperature": 0.0, "logit_bias": ((65, 3.0),)}, True),
        ({"temperature": 0.0, "repeat_penalty": 1.1}, False),
        ({"temperature": 0.0, "repeat_penalty": 1.1, "repeat_last_n": 0}, True),
        ({"temperature": 0.0, "dry_multiplier": 0.8}, False),
        ({"temperature": 0.0, "mirostat": 2}, False),
        ({"temperature": 0.0, "samplers": ("top_k",)}, False),
        ({"temperature": 0.0, "dynatemp_range": 0.5}, False),
        ({"temperature": 0.0, "samplers": ("temperature", "adaptive_p")}, False),
    ],
)
def test_what_is_plain_greedy(params: dict[str, object], greedy: bool) -> None:
    assert chain_of(**params).is_greedy is greedy


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": 1e300}, "temperature"),
        ({"dynatemp_range": float("inf")}, "dynatemp_range"),
        ({"frequency_penalty": -1e30}, "frequency_penalty"),
        ({"repeat_penalty": 0.0}, "repeat_penalty"),
        ({"dry_multiplier": -1.0}, "dry_multiplier"),
        ({"adaptive_decay": 1.0}, "adaptive_decay"),
        ({"min_keep": -1}, "min_keep"),
        ({"dry_allowed_length": 2**31}, "dry_allowed_length"),
        ({"logit_bias": ((1, 1e9),)}, "logit_bias"),
        ({"logit_bias_texts": (("a", float("nan")),)}, "logit_bias"),
        ({"dry_sequence_breakers": ()}, "dry_sequence_breakers"),
        ({"logit_bias_texts": (("x" * 70_000, 1.0),)}, "logit_bias"),
        ({"samplers": ("infill",)}, "samplers"),
        ({"samplers": ("infill", "top_k")}, "samplers"),
        ({"samplers": ("top_k", "infill"), "top_k": 0}, "samplers"),
        ({"samplers": ("top_k", "infill"), "top_k": 129}, "samplers"),
        ({"samplers": ("top_k", "infill")}, "samplers"),  # the mock's vocabulary has no end text
    ],
)
def test_what_is_out_of_range_is_refused_by_name(given: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidError) as caught:
        chain_of(**given)
    assert caught.value.param == param


def test_the_message_names_the_limits() -> None:
    with pytest.raises(InvalidError) as caught:
        chain_of(adaptive_decay=1.0)
    assert str(caught.value) == (
        "Field 'adaptive_decay': Value must be between 0 <= value <= 0.99, but got 1.0"
    )


def test_a_temperature_that_breaks_32_bits_is_0() -> None:
    assert chain_of(temperature=1e-30).temperature == 0.0
    assert chain_of(temperature=1e-5).temperature == 1e-5


def test_a_bias_on_a_text_is_on_all_its_tokens_and_biases_add_up() -> None:
    chain = chain_of(logit_bias=((ord("a"), 1.0),), logit_bias_texts=(("ab", 2.0), ("b", None)))
    assert chain.bias == ((ord("a"), 3.0), (ord("b"), -math.inf))


def test_suppressed_tokens_are_never_said() -> None:
    class Suppressing(MockTokenizer):
        suppressed_tokens = (5,)

    params = SamplingParams(logit_bias=((5, 9.0),))
    assert resolve_chain(params, Suppressing(), max_context=9).bias == ((5, -math.inf),)


@pytest.mark.parametrize(
    ("given", "replays"),
    [
        ({}, True),
        ({"xtc_probability": 0.5}, False),
        ({"xtc_probability": 0.5, "xtc_threshold": 0.6}, True),
        ({"xtc_probability": 0.5, "samplers": ("top_k",)}, True),
        ({"mirostat": 2}, False),
        ({"adaptive_target": 0.5}, True),
        ({"adaptive_target": 0.5, "samplers": ("top_k", "adaptive-p")}, False),
        ({"dry_multiplier": 1.0, "repeat_penalty": 1.1}, True),
    ],
)
def test_what_a_count_of_draws_restores(given: dict[str, object], replays: bool) -> None:
    assert chain_of(**given).replays_by_count is replays


def test_ignore_eos_forbids_the_end_token() -> None:
    assert chain_of(ignore_eos=True).bias == ((END_TOKEN, -math.inf),)


def test_a_bias_outside_the_vocabulary_has_no_effect() -> None:
    assert chain_of(logit_bias=((5000, 1.0), (-1, 1.0), (3, None))).bias == ((3, -math.inf),)


def test_greedy_takes_the_largest_biased_logit() -> None:
    logits = np.array([1.0, 3.0, 2.0], np.float32)
    assert GreedySampler().pick(logits).token_id == 1
    assert GreedySampler(((1, -math.inf),)).pick(logits).token_id == 2
    assert GreedySampler(((0, 5.0),)).pick(logits).token_id == 0


def test_a_banned_token_is_never_said() -> None:
    sampling = SamplingParams(temperature=0.0, logit_bias=((ord("l"), None),))
    limits = Limits(max_tokens=5)
    events = run_one(make_engine("hello"), ask("a", sampling=sampling, limits=limits))
    assert "l" not in text_of(events)
    assert text_of(events).startswith("he")


def test_greedy_draws_nothing_and_sampling_one_number_a_token() -> None:
    assert draws_of(run_one(make_engine("hello"), ask("a"))) == 0
    events = run_one(make_engine("hello"), ask("a", sampling=SamplingParams()))
    assert (text_of(events), draws_of(events)) == ("hello", 5)


def test_the_seed_decides() -> None:
    limits = Limits(max_tokens=30)

    def ids(seed: int) -> tuple[int, ...]:
        engine = make_engine("y" * 40)
        return ids_of(run_one(engine, ask("a", sampling=HOT, limits=limits, seed=seed)))

    assert ids(1) == ids(1)
    assert ids(1) != ids(2)
    assert len(set(ids(1))) > 5


def test_penalties_look_at_the_prompt() -> None:
    chain = chain_of(temperature=0.0, presence_penalty=5.0)
    sampler = NumpySampler(chain, 0)
    logits = np.array([0.0, 2.0, 1.0], np.float32)
    assert sampler.pick(logits).token_id == 1
    sampler.prime([1])
    assert sampler.pick(logits).token_id == 2


def test_skipped_draws_are_used_up() -> None:
    chain = chain_of(temperature=5.0)
    logits = np.linspace(0, 3, 257).astype(np.float32)
    one, other = NumpySampler(chain, 3), NumpySampler(chain, 3)
    picks = [one.pick(logits) for _ in range(10)]
    other.skip(4)
    assert [other.pick(logits) for _ in range(6)] == picks[4:]


def test_log_probabilities_are_of_the_raw_logits() -> None:
    sampling = SamplingParams(temperature=0.0, num_probs=3, logit_bias=((ord("h"), None),))
    events = run_one(make_engine("h"), ask("a", sampling=sampling, limits=Limits(max_tokens=1)))
    delta = next(event for event in events if isinstance(event, Delta))
    (entry,) = delta.logprobs
    assert entry.top[0].token_id == ord("h")
    assert entry.top[0].token_bytes == (ord("h"),)
    assert entry.top[0].logprob == pytest.approx(0.0, abs=1e-3)
    assert entry.chosen.token_id == delta.token_ids[0] != ord("h")
    assert entry.chosen.logprob < -20
    assert len(entry.top) == 3
    assert [p.logprob for p in entry.top] == sorted((p.logprob for p in entry.top), reverse=True)
