"""What is reused, what never is, and who waits for whom."""

from __future__ import annotations

import pytest

from inference.protocol.events import Event, Started
from inference.protocol.params import Limits
from tests.engine.driving import (
    ask,
    backend_of,
    collect,
    finished,
    make_engine,
    run,
    run_one,
    started,
    text_of,
)

PREFIX = "p" * 300
SHORT = Limits(max_tokens=2)


def tail(index: int) -> str:
    return f"{index} tail " + "t" * 20


def test_an_identical_prompt_evaluates_one_token() -> None:
    engine = make_engine()
    cold = run_one(engine, ask("a", PREFIX))
    before = backend_of(engine).num_evaluated
    warm = run_one(engine, ask("b", PREFIX))
    assert started(warm).cached_tokens == len(PREFIX) - 1
    assert finished(warm).usage.cached_tokens == len(PREFIX) - 1
    assert text_of(warm) == text_of(cold)
    # One prompt token, and the answer but for its end token.
    assert backend_of(engine).num_evaluated - before == 1 + finished(warm).usage.completion_tokens


def test_a_continued_chat_keeps_prompt_and_answer() -> None:
    engine = make_engine("the answer")
    run_one(engine, ask("a", PREFIX))
    events = run_one(engine, ask("b", PREFIX + "the answer and more"))
    assert started(events).cached_tokens == len(PREFIX + "the answer")


def test_bob_probing_alices_prompt_sees_a_cold_engine() -> None:
    secret = PREFIX + "the secret"
    cold = make_engine()
    run_one(cold, ask("bob", secret, owner="user:bob"))
    warm = make_engine()
    run_one(warm, ask("alice", secret, owner="user:alice"))
    alice = backend_of(warm).num_evaluated
    events = run_one(warm, ask("bob", secret, owner="user:bob"))
    assert started(events).cached_tokens == 0
    assert backend_of(warm).num_evaluated - alice == backend_of(cold).num_evaluated


def test_bob_probing_while_alice_computes_doesnt_wait_for_her() -> None:
    engine = make_engine()
    engine.add(ask("alice", PREFIX, owner="user:alice"))
    engine.add(ask("bob", PREFIX, owner="user:bob"))
    out = run(engine)
    assert [started(out[who]).cached_tokens for who in ("alice", "bob")] == [0, 0]


@pytest.mark.parametrize(("alice", "bob"), [(100, 300), (300, 100), (100, 100)])
def test_strangers_share_public_text_only(alice: int, bob: int) -> None:
    engine = make_engine()
    run_one(engine, ask("a", PREFIX + tail(1), owner="user:alice", public=alice))
    events = run_one(engine, ask("b", PREFIX + tail(2), owner="user:bob", public=bob))
    assert started(events).cached_tokens == 100


def test_a_group_shares_everything() -> None:
    engine = make_engine()
    run_one(engine, ask("a", PREFIX + tail(1), owner="user:alice", scope="group:1"))
    events = run_one(engine, ask("b", PREFIX + tail(2), owner="user:bob", scope="group:1"))
    assert started(events).cached_tokens == len(PREFIX)


def test_text_copied_from_a_stranger_stays_public_only_as_far_as_it_was() -> None:
    engine = make_engine()
    run_one(engine, ask("a", PREFIX + "alice", owner="user:alice", public=300))
    run_one(engine, ask("b", PREFIX + "x" * 100 + "bob", owner="user:bob", public=300))
    events = run_one(engine, ask("c", PREFIX + "x" * 100, owner="user:carol", public=400))
    assert started(events).cached_tokens == 300


def test_a_burst_computes_a_shared_public_prefix_once() -> None:
    num = 8
    engine = make_engine(num_slots=num)
    backend = backend_of(engine)
    prompts = [PREFIX + tail(index) for index in range(num)]
    for index, prompt in enumerate(prompts):
        engine.add(
            ask(
                str(index),
                prompt,
                owner=f"user:{index}",
                public=len(PREFIX),
                limits=Limits(max_tokens=0),
            )
        )
    out = run(engine)
    tails = sum(len(prompt) - len(PREFIX) for prompt in prompts)
    assert backend.num_evaluated <= len(PREFIX) + tails + backend.ubatch_len
    assert sum(started(events).cached_tokens for events in out.values()) == (num - 1) * len(PREFIX)


def test_a_burst_answers_like_a_cold_engine() -> None:
    engine = make_engine(num_slots=4)
    for index in range(4):
        engine.add(ask(str(index), PREFIX + tail(index), scope="group:1"))
    out = run(engine)
    for index in range(4):
        assert text_of(out[str(index)]) == PREFIX + tail(index)
    assert engine.stats()["cache_copies"] == 3


def test_a_follower_is_promoted_when_its_leader_goes() -> None:
    engine = make_engine(batch_len=64, ubatch_len=64)
    engine.add(ask("leader", PREFIX + tail(1)))
    out: dict[str, list[Event]] = {}
    collect(out, engine.step())
    engine.add(ask("follower", PREFIX + tail(2)))
    collect(out, engine.step())
    assert "follower" not in out
    collect(out, engine.abort("leader", "user"))
    done = backend_of(engine).num_evaluated
    assert 0 < done < len(PREFIX)
    collect(out, engine.step())
    assert out["follower"][0] == Started(len(PREFIX + tail(2)), done)
    collect(out, [*engine.step()])
    for generation_id, events in run(engine).items():
        out[generation_id] += events
    assert text_of(out["follower"]) == PREFIX + tail(2)


def test_nobody_waits_for_a_lower_lane() -> None:
    engine = make_engine(batch_len=64, ubatch_len=64)
    engine.add(ask("slow", PREFIX + tail(1), lane="background"))
    engine.step()
    engine.add(ask("fast", PREFIX + tail(2)))
    events = {item.generation_id for item in engine.step()}
    assert "fast" in events


def test_a_background_prompt_waits_for_an_interactive_leader() -> None:
    engine = make_engine(batch_len=64, ubatch_len=64)
    engine.add(ask("fast", PREFIX + tail(1)))
    engine.step()
    engine.add(ask("slow", PREFIX + tail(2), lane="background"))
    assert "slow" not in {item.generation_id for item in engine.step()}
    assert started(run(engine)["slow"]).cached_tokens == len(PREFIX)


def test_a_new_chat_takes_an_empty_seat_rather_than_somebodys_cache() -> None:
    engine = make_engine(num_slots=3)
    run_one(engine, ask("alice", "a" * 200, owner="user:alice", limits=SHORT))
    run_one(engine, ask("bob", "b" * 200, owner="user:bob", limits=SHORT))
    events = run_one(engine, ask("alice2", "a" * 210, owner="user:alice", limits=SHORT))
    assert started(events).cached_tokens == 201  # one token of the answer too


def test_a_shared_public_prefix_is_copied_out_of_a_longer_chat() -> None:
    engine = make_engine(num_slots=3)
    long_chat = PREFIX + "private " * 100
    run_one(engine, ask("alice", long_chat, owner="user:alice", public=300, limits=SHORT))
    bob = run_one(engine, ask("bob", PREFIX + "b", owner="user:bob", public=300, limits=SHORT))
    assert started(bob).cached_tokens == 300
    alice = run_one(engine, ask("again", long_chat, owner="user:alice", public=300, limits=SHORT))
    assert started(alice).cached_tokens == len(long_chat) - 1


def test_a_cleared_cache_is_cold() -> None:
    engine = make_engine()
    run_one(engine, ask("a", PREFIX, limits=SHORT))
    assert engine.purge() == len(PREFIX) + 1
    assert started(run_one(engine, ask("b", PREFIX))).cached_tokens == 0


def test_a_memory_without_prefixes_shares_nothing_and_nobody_waits() -> None:
    engine = make_engine(batch_len=64, ubatch_len=64)
    backend_of(engine).can_share = False
    engine.add(ask("a", PREFIX))
    engine.add(ask("b", PREFIX))
    first = [item.generation_id for item in engine.step() if isinstance(item.event, Started)]
    assert first == ["a", "b"]
    assert started(run_one(engine, ask("c", PREFIX))).cached_tokens == 0
