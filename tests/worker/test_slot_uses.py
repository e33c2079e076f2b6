"""What a heartbeat says of the slots: counts and whose, never a word of theirs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.protocol.events import Delta, Progress, Started
from inference.protocol.requests import RenderRequest, TextPrompt
from inference.protocol.slot_uses import (
    MAX_TOLD,
    OWNER_LEN,
    SlotUse,
    decode_slot_uses,
    encode_slot_uses,
)
from inference.queues.contract import Claim
from inference.worker.running import RunningSet
from inference.worker.slot_uses import slot_uses
from tests.stack import wait_for
from tests.worker.conftest import MODEL, WAIT_S, Bench, generate

COUNTS = st.integers(0, 2**40)
USES = st.builds(
    SlotUse, st.sampled_from(["waiting", "prefill", "decode"]), st.text(max_size=OWNER_LEN),
    COUNTS, COUNTS, COUNTS, COUNTS,
)  # fmt: skip


def told(*events: Any) -> SlotUse:
    leases = RunningSet()
    running = leases.add(Claim(generate(owner_key="user:7"), 1, 1))
    for event in events:
        running.log.add(event)
    (use,) = slot_uses(leases)
    return use


def test_from_waiting_to_decode() -> None:
    assert told() == SlotUse("waiting", "user:7")
    assert told(Started(90, 30)) == SlotUse("prefill", "user:7", 90, 30, 30)
    use = told(Started(90, 30), Progress(60, 90))
    assert (use.state, use.done_tokens, use.context_tokens) == ("prefill", 60, 60)
    use = told(Started(90, 30), Progress(60, 90), Delta("ab", token_ids=(1, 2)))
    assert use == SlotUse("decode", "user:7", 90, 30, 90, 2)
    assert use.context_tokens == 92


def test_what_computes_elsewhere_says_no_tokens() -> None:
    use = told(Started(9, 0), Delta("text", ()))
    assert (use.state, use.generated_tokens) == ("decode", 0)


def test_what_needs_no_slot_takes_none() -> None:
    leases = RunningSet()
    leases.add(Claim(RenderRequest("r", MODEL, "user:1", 0.0, 9.0, prompt=TextPrompt("x")), 1, 1))
    assert slot_uses(leases) == []


@given(st.lists(USES, max_size=MAX_TOLD))
def test_there_and_back(uses: list[SlotUse]) -> None:
    assert decode_slot_uses(encode_slot_uses(uses)) == tuple(uses)


def test_it_is_bounded() -> None:
    uses = [SlotUse("decode", "user:" + "9" * 999, *[2**40] * 4)] * 999
    text = encode_slot_uses(uses)
    assert len(decode_slot_uses(text)) == MAX_TOLD
    assert len(text) < 16_384


@pytest.mark.parametrize(
    "text",
    [None, 7, "", "{", "{}", "7", "[1]", '["decode"]', "[[]]", "[" * 99_999,
     '[["sleep","u",1,1,1,1]]', '[["decode",7,1,1,1,1]]', '[["decode","u",1,"x",1,1]]'],
)  # fmt: skip
def test_nonsense_says_nothing(text: Any) -> None:
    assert decode_slot_uses(text) == ()


def test_a_running_engine_tells(bench: Bench) -> None:
    bench.start(num_slots=2, reply="one two three four " * 50, delay_ms=20)
    request = generate("a secret question", owner_key="user:5")
    bench.queue.submit(request)

    def uses() -> tuple[SlotUse, ...]:
        (engine,) = bench.queue.engines(MODEL)
        return decode_slot_uses(engine.info.get("slots"))

    wait_for("an answer", lambda: any(use.generated_tokens for use in uses()), WAIT_S)
    (use,) = uses()
    assert (use.state, use.owner_key) == ("decode", "user:5")
    assert use.prompt_tokens > 0
    (engine,) = bench.queue.engines(MODEL)
    assert "secret" not in str(engine.info)
    bench.queue.cancel(MODEL, request.generation_id, "user")
    wait_for("an empty slot", lambda: not uses(), WAIT_S)
