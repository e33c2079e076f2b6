"""The engine on a real model: batching, reuse and resume don't change what is said.

The context is set up so that rounding doesn't depend on the batch (see `starter_spec`); where a
CPU's kernels don't keep that, two runs may part where the two best tokens are nearly equal, and
only there.
"""

from __future__ import annotations

import math

import pytest

from inference.engine.config import EngineConfig
from inference.engine.contract import Resume
from inference.engine.costs import CacheCosts
from inference.engine.engine import Engine
from inference.engine.picking import Picker
from inference.protocol.events import Delta, Event, TokenLogprobs
from inference.protocol.params import Limits, SamplingParams
from tests.engine.driving import (
    collect,
    draws_of,
    finished,
    ids_of,
    run,
    run_one,
    started,
    text_of,
)
from tests.model.conftest import AskChat

pytestmark = pytest.mark.model

NEAR_TIE = 0.05  # logits
GREEDY = SamplingParams(temperature=0.0, num_probs=2)
LIMITS = Limits(max_tokens=20)
QUESTIONS = (
    "Write a short poem about the sea.",
    "What is the capital of France?",
    "Explain in one sentence what a compiler does.",
    "List three colours.",
)
LONG = (
    "Here is a list of words: " + "apple river stone cloud " * 50 + ". Say which word came first."
)


def logprobs_of(events: list[Event]) -> list[TokenLogprobs]:
    return [entry for event in events if isinstance(event, Delta) for entry in event.logprobs]


def assert_same_choices(expected: list[Event], actual: list[Event]) -> None:
    """Equal ids, up to the first place where the two best tokens were nearly equal."""
    for wanted, got in zip(logprobs_of(expected), logprobs_of(actual), strict=False):
        if wanted.chosen.token_id != got.chosen.token_id:
            gap = wanted.top[0].logprob - wanted.top[1].logprob
            assert gap < NEAR_TIE, f"parted although the best led by {gap:.3f}"
            return
    assert ids_of(expected) == ids_of(actual)


def test_mixed_load_says_what_each_says_alone(engine: Engine, ask_chat: AskChat) -> None:
    alone = []
    for index, question in enumerate((*QUESTIONS[:3], LONG)):
        engine.purge()
        alone.append(
            run_one(engine, ask_chat(f"alone{index}", question, sampling=GREEDY, limits=LIMITS))
        )
    engine.purge()
    out: dict[str, list[Event]] = {}
    for index, question in enumerate((*QUESTIONS[:3], LONG)):
        request = ask_chat(
            str(index), question, owner=f"user:{index}", sampling=GREEDY, limits=LIMITS
        )
        engine.add(request)
        collect(out, engine.step())
    for generation_id, events in run(engine).items():
        out[generation_id] += events
    for index, expected in enumerate(alone):
        assert len(text_of(expected)) > 5
        assert_same_choices(expected, out[str(index)])


def test_an_identical_prompt_evaluates_one_token_and_says_the_same(
    engine: Engine, ask_chat: AskChat
) -> None:
    cold = run_one(engine, ask_chat("a", QUESTIONS[0], sampling=GREEDY, limits=LIMITS))
    warm = run_one(engine, ask_chat("b", QUESTIONS[0], sampling=GREEDY, limits=LIMITS))
    prompt_len = started(cold).prompt_tokens
    assert (started(cold).cached_tokens, started(warm).cached_tokens) == (0, prompt_len - 1)
    assert_same_choices(cold, warm)


@pytest.fixture
def free_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a copy costs here and now, beside other programs, must not choose the way."""
    monkeypatch.setattr(CacheCosts, "copy_s", lambda _costs: 0.0)
    monkeypatch.setattr(CacheCosts, "save_s", lambda _costs, _num_bytes: 60.0)


@pytest.mark.usefixtures("free_copies")
def test_a_prefix_copied_to_another_stream_says_the_same(engine: Engine, ask_chat: AskChat) -> None:
    cold = run_one(engine, ask_chat("a", LONG + " Why?", sampling=GREEDY, limits=LIMITS))
    engine.purge()
    copies = engine.stats()["cache_copies"]
    engine.add(ask_chat("leader", LONG, sampling=GREEDY, limits=LIMITS))
    engine.step()
    engine.add(ask_chat("follower", LONG + " Why?", sampling=GREEDY, limits=LIMITS))
    follower = run(engine)["follower"]
    assert engine.stats()["cache_copies"] == copies + 1
    assert started(follower).cached_tokens > 200
    assert_same_choices(cold, follower)


def test_strangers_share_nothing(engine: Engine, ask_chat: AskChat) -> None:
    run_one(engine, ask_chat("a", LONG, owner="user:alice", limits=Limits(max_tokens=0)))
    bob = run_one(engine, ask_chat("b", LONG, owner="user:bob", limits=Limits(max_tokens=0)))
    assert started(bob).cached_tokens == 0


@pytest.mark.parametrize("num_published", [1, 9, 17])
def test_a_resumed_answer_goes_on_with_the_same_text(
    engine: Engine, ask_chat: AskChat, num_published: int
) -> None:
    whole = run_one(engine, ask_chat("a", QUESTIONS[0], sampling=GREEDY, limits=LIMITS))
    engine.purge()
    resume = Resume(ids_of(whole)[:num_published], 0)
    request = ask_chat("b", QUESTIONS[0], sampling=GREEDY, limits=LIMITS, resume=resume)
    rest = run_one(engine, request)
    deltas = [event for event in whole if isinstance(event, Delta)]
    assert_same_choices([*deltas[num_published:]], rest)
    assert finished(rest).usage.completion_tokens == finished(whole).usage.completion_tokens


def test_a_resumed_sampled_answer_draws_the_same_numbers(engine: Engine, ask_chat: AskChat) -> None:
    sampling = SamplingParams(temperature=1.0, top_k=40, top_p=1.0, min_p=0.0, repeat_penalty=1.1)
    whole = run_one(engine, ask_chat("a", QUESTIONS[0], sampling=sampling, limits=LIMITS))
    resume = Resume(ids_of(whole)[:12], 12)
    request = ask_chat("b", QUESTIONS[0], sampling=sampling, limits=LIMITS, resume=resume)
    rest = run_one(engine, request)
    assert draws_of(whole) == len(ids_of(whole))
    assert ids_of(rest) == ids_of(whole)[12:]


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(mirostat=1),
        SamplingParams(mirostat=2),
        SamplingParams(
            temperature=1.5, xtc_probability=0.5, xtc_threshold=0.02, repeat_penalty=1.1
        ),
        SamplingParams(samplers=("top_k", "adaptive_p"), adaptive_target=0.3),
    ],
)
def test_a_sampler_with_a_memory_of_its_own_is_resumed_too(
    engine: Engine, ask_chat: AskChat, sampling: SamplingParams
) -> None:
    whole = run_one(engine, ask_chat("a", QUESTIONS[0], sampling=sampling, limits=LIMITS))
    resume = Resume(ids_of(whole)[:12], 12)
    request = ask_chat("b", QUESTIONS[0], sampling=sampling, limits=LIMITS, resume=resume)
    rest = run_one(engine, request)
    assert ids_of(rest) == ids_of(whole)[12:]
    assert finished(rest).usage.completion_tokens == finished(whole).usage.completion_tokens


def test_probabilities_after_sampling_are_of_what_the_chain_left(
    engine: Engine, ask_chat: AskChat
) -> None:
    sampling = SamplingParams(
        temperature=1.0, top_k=3, top_p=1.0, min_p=0.0, num_probs=10, post_sampling_probs=True
    )
    events = run_one(engine, ask_chat("a", QUESTIONS[0], sampling=sampling, limits=LIMITS))
    raw = SamplingParams(temperature=1.0, top_k=3, top_p=1.0, min_p=0.0, num_probs=3)
    other = run_one(engine, ask_chat("b", QUESTIONS[0], sampling=raw, limits=LIMITS))
    assert ids_of(events) == ids_of(other)
    for after, before in zip(logprobs_of(events), logprobs_of(other), strict=True):
        assert [prob.token_id for prob in after.top] == [prob.token_id for prob in before.top]
        total = sum(math.exp(prob.logprob) for prob in before.top)
        for mine, raw_prob in zip(after.top, before.top, strict=True):
            assert math.exp(mine.logprob) == pytest.approx(
                math.exp(raw_prob.logprob) / total, abs=1e-4
            )
        assert after.chosen in after.top


def test_threads_sample_the_same(engine: Engine, ask_chat: AskChat) -> None:
    def texts(picker: Picker) -> dict[str, str]:
        own, engine._picker = engine._picker, picker
        try:
            engine.purge()
            for index, question in enumerate(QUESTIONS):
                sampling = SamplingParams(temperature=1.0, num_probs=index)
                request = ask_chat(
                    str(index), question, owner=f"u{index}", sampling=sampling, limits=LIMITS
                )
                engine.add(request)
            return {name: text_of(events) for name, events in run(engine).items()}
        finally:
            engine._picker = own

    pooled = Picker(engine._backend.tokenizer, EngineConfig(large_vocab_len=1, sample_threads=3))
    assert pooled._pool is not None
    alone, together = texts(engine._picker), texts(pooled)
    pooled.close()
    assert alone == together


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(),
        SamplingParams(mirostat=1),
        SamplingParams(mirostat=2),
        SamplingParams(dry_multiplier=0.8, repeat_penalty=1.2, presence_penalty=0.5),
        SamplingParams(  # llama.cpp allocates what it is told, and aborts
            repeat_penalty=1.2,
            repeat_last_n=2**31 - 1,
            dry_multiplier=0.8,
            dry_penalty_last_n=2**31 - 1,
        ),
        SamplingParams(xtc_probability=0.5, top_n_sigma=1.0, typical_p=0.9, dynatemp_range=0.3),
        SamplingParams(samplers=(), logit_bias=((28, None), (30, 2.0))),
        SamplingParams(temperature=0.0, frequency_penalty=0.4),
        SamplingParams(samplers=("top_k", "adaptive_p"), adaptive_target=0.4, adaptive_decay=0.5),
        SamplingParams(samplers=("top_k", "infill", "temperature"), min_keep=5),
        SamplingParams(logit_bias_texts=((" the", -50.0), ("France", None)), dry_multiplier=1e6),
        SamplingParams(temperature=0.8, dynatemp_range=0.8, dynatemp_exponent=9.0, top_k=2),
        SamplingParams(  # as far as ranges go
            temperature=1e6,
            presence_penalty=-1e6,
            frequency_penalty=-1e6,
            dry_multiplier=1e6,
            dry_base=1e6,
            typical_p=0.1,
            top_n_sigma=1e6,
            min_keep=2**31 - 1,
        ),
    ],
)
def test_every_chain_can_be_built_and_its_seed_decides(
    engine: Engine, ask_chat: AskChat, sampling: SamplingParams
) -> None:
    limits = Limits(max_tokens=8)
    ids = [
        ids_of(run_one(engine, ask_chat("a", QUESTIONS[1], sampling=sampling, limits=limits)))
        for _ in range(2)
    ]
    assert ids[0] == ids[1]
    assert ids[0]


def test_greedy_over_the_native_chain_equals_argmax(engine: Engine, ask_chat: AskChat) -> None:
    run_one(engine, ask_chat("warm", QUESTIONS[0], limits=Limits(max_tokens=0)))
    plain = run_one(engine, ask_chat("a", QUESTIONS[0], sampling=GREEDY, limits=LIMITS))
    native = SamplingParams(temperature=0.0, repeat_penalty=1.0000001, num_probs=2)
    chained = run_one(engine, ask_chat("b", QUESTIONS[0], sampling=native, limits=LIMITS))
    assert draws_of(chained) > 0
    assert_same_choices(plain, chained)


@pytest.mark.usefixtures("free_copies")
def test_a_sequence_that_is_moved_says_the_same(engine: Engine, ask_chat: AskChat) -> None:
    alone = run_one(engine, ask_chat("a", QUESTIONS[0], sampling=GREEDY, limits=LIMITS))
    engine.purge()
    moves = engine.stats()["cache_moves"]
    endless = SamplingParams(temperature=0.0, ignore_eos=True)
    stays = Limits(max_tokens=60)
    engine.add(ask_chat("stays", QUESTIONS[2], owner="user:8", sampling=endless, limits=stays))
    for index in range(2):
        limits = Limits(max_tokens=2)
        engine.add(ask_chat(f"short{index}", QUESTIONS[1], owner=f"user:{index}", limits=limits))
    engine.add(ask_chat("moves", QUESTIONS[0], sampling=GREEDY, owner="user:9", limits=LIMITS))
    out = run(engine)
    assert engine.stats()["cache_moves"] > moves
    assert_same_choices(alone, out["moves"])
