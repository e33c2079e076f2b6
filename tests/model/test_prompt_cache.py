"""The prompt cache on a real model: tiers and ways give what a fresh computation gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.engine.reuse import Reuse, Way
from inference.protocol.events import Event
from inference.protocol.params import Limits, SamplingParams
from tests.engine.driving import collect, run, run_one, started
from tests.model.conftest import AskChat, starter_spec
from tests.model.test_llama_engine import NEAR_TIE, QUESTIONS, assert_same_choices

pytestmark = pytest.mark.model

LONG = "Here is a list of words: " + "apple river stone cloud " * 20 + ". Which came first?"
GREEDY = SamplingParams(temperature=0.0, num_probs=2)
SHORT = Limits(max_tokens=2)
FEW = Limits(max_tokens=8)


@pytest.fixture(scope="module", params=[False, True], ids=["streams", "unified"])
def loaded(request: pytest.FixtureRequest) -> Iterator[Engine]:
    built, _ = build_engine(
        starter_spec(num_slots=3, verify_cache=True, cache_ram_mib=64, kv_unified=request.param)
    )
    assert isinstance(built, Engine)
    yield built
    built.close()


@pytest.fixture
def checked(loaded: Engine) -> Iterator[Engine]:
    """Three slots and a second tier; every reused prefix is computed again and compared."""
    assert not loaded.has_work
    loaded.purge()
    failures = loaded.stats()["cache_check_failures"]
    yield loaded
    assert loaded.stats()["cache_check_failures"] == failures
    if not loaded._backend.is_unified:  # one pool: cells lie and are added up in another order
        assert loaded.stats()["cache_worst_check_gap"] < NEAR_TIE


def test_an_evicted_chat_comes_back_and_says_the_same(checked: Engine, ask_chat: AskChat) -> None:
    cold = run_one(checked, ask_chat("a", LONG, sampling=GREEDY, limits=FEW))
    before = checked.stats()
    while checked._cache.evict_one():
        pass
    warm = run_one(checked, ask_chat("b", LONG, sampling=GREEDY, limits=FEW))
    after = checked.stats()
    assert after["cache_restores"] - before["cache_restores"] == 1
    assert after["cache_checks"] - before["cache_checks"] == 1
    assert started(warm).cached_tokens == started(cold).prompt_tokens - 1
    assert_same_choices(cold, warm)


@pytest.mark.parametrize("way", [Way.COPY, Way.STATE])
def test_every_way_between_slots_says_the_same(
    checked: Engine, ask_chat: AskChat, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = run_one(checked, ask_chat("a", LONG + " Why?", sampling=GREEDY, limits=FEW))
    checked.purge()
    run_one(checked, ask_chat("lead", LONG, sampling=GREEDY, limits=FEW))
    leader = max(checked._table.slots, key=lambda slot: slot.length)
    plan = checked._cache.plan

    def planned(sequence: object) -> Reuse:
        found = plan(sequence)  # type: ignore[arg-type]
        if found.source is sequence.slot:  # type: ignore[attr-defined]
            return found
        return Reuse(way, found.source, found.length)

    monkeypatch.setattr(checked._cache, "plan", planned)
    leader.is_busy = True  # so that the next one sits elsewhere
    checked.add(ask_chat("b", LONG + " Why?", sampling=GREEDY, limits=FEW))
    leader.is_busy = False
    events = run(checked)["b"]
    assert started(events).cached_tokens > 100
    assert_same_choices(alone, events)


def test_more_chats_than_slots_all_stay_cached(checked: Engine, ask_chat: AskChat) -> None:
    restores = checked.stats()["cache_restores"]
    questions = [f"{index}. {LONG} {QUESTIONS[index % 4]}" for index in range(4)]
    first = []
    for index, question in enumerate(questions):
        first.append(run_one(checked, ask_chat(f"c{index}", question, limits=SHORT)))
    for index, question in enumerate(questions):
        again = run_one(checked, ask_chat(f"w{index}", question, limits=SHORT))
        assert started(again).cached_tokens == started(first[index]).prompt_tokens - 1
    assert checked.stats()["cache_restores"] > restores


def test_under_load_with_all_tiers_each_says_what_it_says_alone(ask_chat: AskChat) -> None:
    """Ten requests over four slots, twice: the second time most of it comes from somewhere."""
    built, _ = build_engine(starter_spec(num_slots=4, cache_ram_mib=64))
    assert isinstance(built, Engine)
    prompts = [f"{LONG} {QUESTIONS[index % 4]} {index % 5}" for index in range(10)]
    alone: list[list[Event]] = []
    for index, prompt in enumerate(prompts):
        built.purge()
        alone.append(run_one(built, ask_chat(f"alone{index}", prompt, sampling=GREEDY, limits=FEW)))
    built.purge()
    for turn in range(2):
        out: dict[str, list[Event]] = {}
        for index, prompt in enumerate(prompts):
            while not built.free_slots:
                collect(out, built.step())
            request = ask_chat(f"{turn}/{index}", prompt, sampling=GREEDY, limits=FEW)
            built.add(dataclasses.replace(request, owner_key=f"user:{index % 3}"))
        for generation_id, events in run(built).items():
            out.setdefault(generation_id, []).extend(events)
        for index, expected in enumerate(alone):
            assert_same_choices(expected, out[f"{turn}/{index}"])
    stats = built.stats()
    assert stats["cache_copy_hit_tokens"] + stats["cache_slot_hit_tokens"] > 1000
    assert stats["failed"] == 0
    built.close()
