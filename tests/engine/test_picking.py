"""The tokens of a step, one after the other or over a pool: the same, and failures stay apart."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from inference.engine.config import EngineConfig
from inference.engine.mock_sampler import NumpySampler
from inference.engine.mock_tokenizer import MockTokenizer
from inference.engine.picking import Picker, Row
from inference.engine.picks import GreedySampler, Logits, Pick
from inference.engine.sampling import resolve_chain
from inference.protocol.params import SamplingParams
from tests.engine.driving import ask, ids_of, make_engine, run

POOLED = EngineConfig(large_vocab_len=1, sample_threads=3)
ALONE = EngineConfig()
LOGITS = np.linspace(0, 9, 257).astype(np.float32)


class Failing(GreedySampler):
    def pick(self, logits: Logits) -> Pick:
        raise RuntimeError("no")


class Meeting(GreedySampler):
    """Waits for as many others as there are threads."""

    barrier = threading.Barrier(3, timeout=20)

    def pick(self, logits: Logits) -> Pick:
        self.barrier.wait()
        return super().pick(logits)


def logits_of(index: int) -> Logits:
    if index == 3:
        raise ValueError("no such row")
    return LOGITS.copy()


@pytest.mark.parametrize("config", [ALONE, POOLED])
def test_a_failing_row_takes_no_other_with_it(config: EngineConfig) -> None:
    picker = Picker(MockTokenizer(), config)
    samplers = [GreedySampler(), Failing(), GreedySampler(((256, -9.0),)), GreedySampler()]
    outcomes = picker.pick_all([Row(sampler, 0, False) for sampler in samplers], logits_of)
    picker.close()
    assert outcomes[0] == Pick(256)
    assert isinstance(outcomes[1], RuntimeError)
    assert outcomes[2] == Pick(255)
    assert isinstance(outcomes[3], ValueError)


def test_rows_of_a_large_vocabulary_are_sampled_side_by_side() -> None:
    picker = Picker(MockTokenizer(), POOLED)
    outcomes = picker.pick_all([Row(Meeting(), 0, False)] * 3, logits_of)
    picker.close()
    assert outcomes == [Pick(256)] * 3


def test_an_engine_says_the_same_with_a_pool() -> None:
    hot = SamplingParams(temperature=10.0, samplers=("temperature",), ignore_eos=True)

    def ids(config: EngineConfig) -> dict[str, tuple[int, ...]]:
        engine = make_engine("y" * 20, config=config)
        for index in range(4):
            engine.add(ask(str(index), sampling=hot, seed=index))
        out: dict[str, tuple[int, ...]] = {}
        for _ in range(30):
            for item in engine.step():
                out[item.generation_id] = out.get(item.generation_id, ()) + ids_of([item.event])
        engine.close()
        return out

    assert ids(ALONE) == ids(POOLED)
    assert len(set(ids(ALONE).values())) == 4


def row(**params: object) -> Row:
    sampling = SamplingParams(**params)  # type: ignore[arg-type]
    chain = resolve_chain(sampling, MockTokenizer(), max_context=99)
    return Row(NumpySampler(chain, 1), sampling.num_probs, sampling.post_sampling_probs)


def test_probabilities_after_sampling_leave_out_what_the_chain_did() -> None:
    picker = Picker(MockTokenizer(), ALONE)
    asked = row(num_probs=10, post_sampling_probs=True, top_k=3, top_p=1.0, min_p=0.0)
    (outcome,) = picker.pick_all([asked], logits_of)
    assert isinstance(outcome, Pick)
    (entry,) = outcome.logprobs
    assert [prob.token_id for prob in entry.top] == [256, 255, 254]
    assert sum(np.exp(prob.logprob) for prob in entry.top) == pytest.approx(1.0)
    assert entry.chosen in entry.top
    assert entry.chosen.token_id == outcome.token_id


def test_greedy_leaves_one_token_of_probability_1() -> None:
    picker = Picker(MockTokenizer(), ALONE)
    (outcome,) = picker.pick_all([Row(GreedySampler(shows_probs=True), 5, True)], logits_of)
    assert isinstance(outcome, Pick)
    (entry,) = outcome.logprobs
    assert entry.top == (entry.chosen,)
    assert (entry.chosen.token_id, entry.chosen.logprob) == (256, 0.0)


def test_raw_probabilities_know_nothing_of_the_chain() -> None:
    picker = Picker(MockTokenizer(), ALONE)
    (outcome,) = picker.pick_all([row(num_probs=5, top_k=1, temperature=0.1)], logits_of)
    assert isinstance(outcome, Pick)
    assert len(outcome.logprobs[0].top) == 5


def test_engines_run_with_them() -> None:
    engine = make_engine("hi")
    sampling = SamplingParams(temperature=0.0, num_probs=3, post_sampling_probs=True)
    engine.add(ask("a", sampling=sampling))
    deltas = [event for event in run(engine)["a"] if getattr(event, "token_ids", ())]
    assert [len(delta.logprobs[0].top) for delta in deltas] == [1, 1]  # type: ignore[union-attr]
