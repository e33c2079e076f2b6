"""Several answers to one prompt read it once."""

from __future__ import annotations

import pytest

from inference.engine.config import EngineConfig
from inference.protocol.params import Limits, SamplingParams
from tests.engine.driving import ask, backend_of, ids_of, make_engine, run, run_one, started

HOT = SamplingParams(temperature=10.0, samplers=("temperature",), ignore_eos=True)
LIMITS = Limits(max_tokens=6)
PROMPT = "a prompt that is long enough to be worth a copy. " * 6
NUM = 4


@pytest.mark.parametrize("batch_len", [2048, 100])
def test_the_prompt_is_evaluated_once_and_a_token_for_each_further_answer(batch_len: int) -> None:
    engine = make_engine("y" * 20, batch_len=batch_len, ubatch_len=50)
    for index in range(NUM):
        engine.add(ask(str(index), PROMPT, sampling=HOT, limits=LIMITS, seed=index))
    events = run(engine)
    num_generated = NUM * (LIMITS.max_tokens or 0)
    # The last token of an answer isn't evaluated, the last one of a prompt is for each.
    assert backend_of(engine).num_evaluated == len(PROMPT) + (NUM - 1) + num_generated - NUM
    cached = sorted(started(answer).cached_tokens for answer in events.values())
    assert cached == [0, *[len(PROMPT) - 1] * (NUM - 1)]


def test_each_says_what_its_seed_says_alone() -> None:
    engine = make_engine("y" * 20)
    for index in range(NUM):
        engine.add(ask(str(index), PROMPT, sampling=HOT, limits=LIMITS, seed=index))
    together = run(engine)
    for index in range(NUM):
        alone = make_engine("y" * 20, config=EngineConfig())
        request = ask("a", PROMPT, sampling=HOT, limits=LIMITS, seed=index)
        assert ids_of(run_one(alone, request)) == ids_of(together[str(index)])
    assert len({ids_of(events) for events in together.values()}) == NUM


def test_a_choice_that_came_late_reads_nothing_again() -> None:
    engine = make_engine("y" * 20)
    engine.add(ask("0", PROMPT, sampling=HOT, limits=LIMITS, seed=0))
    engine.step()
    engine.step()
    engine.add(ask("1", PROMPT, sampling=HOT, limits=LIMITS, seed=1))
    assert started(run(engine)["1"]).cached_tokens == len(PROMPT) - 1
