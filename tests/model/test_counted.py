"""What steps cost on a real model, counted and not timed: passes, graphs, evaluated tokens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.protocol.params import Limits, SamplingParams
from tests.engine.driving import run, started
from tests.model.conftest import AskChat, starter_spec
from tests.model.llama_passes import PassCounter, counted

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

NUM = 8
NUM_STAGGERED = 2 * NUM  # steps until all are decoding, at most: two pieces a prompt
ENDLESS = SamplingParams(temperature=0.0, ignore_eos=True)
PREFIX = "Here is a list of words: " + "apple river stone cloud " * 40 + ". "


@pytest.fixture(scope="module")
def loaded() -> Iterator[tuple[Engine, PassCounter]]:
    """Eight slots, batches and kernels as the server has them."""
    with counted() as counter:
        engine, _ = build_engine(
            starter_spec(num_slots=NUM, batch_len=2048, ubatch_len=512, flash_attention="auto")
        )
    assert isinstance(engine, Engine)
    yield engine, counter
    engine.close()


@pytest.fixture
def eight(loaded: tuple[Engine, PassCounter]) -> tuple[Engine, PassCounter]:
    engine, _ = loaded
    assert not engine.has_work
    engine.purge()
    return loaded


def add_eight(engine: Engine, ask_chat: AskChat, num_tokens: int) -> None:
    for index in range(NUM):
        request = ask_chat(
            str(index),
            f"Tell me about the number {index}.",
            owner=f"user:{index}",
            sampling=ENDLESS,
            limits=Limits(max_tokens=num_tokens),
        )
        engine.add(request)


def test_a_decode_only_step_of_eight_is_one_pass_over_a_reused_graph(
    eight: tuple[Engine, PassCounter], ask_chat: AskChat
) -> None:
    engine, counter = eight
    add_eight(engine, ask_chat, NUM_STAGGERED + 24)
    steps = reused = 0
    was_steady = False
    while engine.has_work:
        ids = {sequence.slot.seq_id for sequence in engine._active.values()}
        passes, graphs = counter.num_passes, engine.stats()["graphs_reused"]
        engine.step()
        record = engine.last_step
        assert counter.num_passes - passes == record.num_ubatches
        is_steady = record.num_decode == NUM and not record.num_prompt
        if is_steady:
            assert ids == {*range(NUM)}
            assert record.num_ubatches == 1
        if is_steady and was_steady:
            steps += 1
            reused += engine.stats()["graphs_reused"] - graphs
        was_steady = is_steady
    assert steps >= 20
    assert reused >= 0.95 * steps


def test_passes_are_counted_where_ids_have_gaps(
    eight: tuple[Engine, PassCounter], ask_chat: AskChat
) -> None:
    """The count above would see more than one."""
    engine, counter = eight
    add_eight(engine, ask_chat, NUM_STAGGERED + 4)
    for _ in range(NUM_STAGGERED):
        engine.step()
    seats = {seq.slot.seq_id: who for who, seq in engine._active.items()}
    for seq_id in (1, 4):
        engine.abort(seats[seq_id], "user")
    before = counter.num_passes
    engine.step()
    assert engine.last_step.num_decode == NUM - 2
    assert counter.num_passes - before == engine.last_step.num_ubatches == 3
    run(engine)


@pytest.mark.parametrize("max_tokens", [0, 2])
def test_a_burst_computes_a_shared_beginning_once(
    eight: tuple[Engine, PassCounter], ask_chat: AskChat, max_tokens: int
) -> None:
    engine, _ = eight
    limits = Limits(max_tokens=max_tokens)
    requests = [
        ask_chat(str(n), f"{PREFIX} {n} times?", scope="group:1", sampling=ENDLESS, limits=limits)
        for n in range(NUM)
    ]
    lengths = [len(request.tokens) for request in requests]
    tokens = [request.tokens for request in requests]
    prefix_len = next(
        n for n, column in enumerate(zip(*tokens, strict=False)) if len({*column}) > 1
    )
    before = engine.stats()["prompt_tokens"]
    for request in requests:
        engine.add(request)
    out = run(engine)
    evaluated = engine.stats()["prompt_tokens"] - before
    tails = sum(lengths) - NUM * prefix_len
    assert prefix_len > 150
    assert evaluated <= prefix_len + tails + engine._backend.ubatch_len
    assert sum(started(events).cached_tokens for events in out.values()) == sum(lengths) - evaluated
