"""An order to end the reasoning of a reply reaches whoever runs its generations, now or later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inference.protocol.requests import AnswerParams, ReplyInfo
from inference.queues.contract import Beat, Claim
from tests.contracts.bench import FINISHED, MODEL, STARTED, Bench, delta
from tests.contracts.test_control import woken

REPLY = "chatcmpl-1"


def submit(
    bench: Bench, *ids: str, owner: str = "alice", reply: str = REPLY, allowed: bool = True
) -> None:
    for generation_id in ids:
        request = bench.request(generation_id, owner)
        answer = AnswerParams(reasoning_control=allowed)
        bench.queue.submit(replace(request, reply=ReplyInfo(reply), answer=answer))


def beat(bench: Bench, *claims: Claim, engine: str = "e1") -> tuple[str, ...]:
    running = tuple((claim.request.generation_id, claim.epoch) for claim in claims)
    return bench.queue.beat(MODEL, Beat(engine, "ready", running=running)).reasoning_ended


def test_running_ones_are_told_with_every_heartbeat(bench: Bench) -> None:
    submit(bench, "a", "b")
    submit(bench, "other", reply="chatcmpl-2")
    claims = bench.claim(3)
    assert beat(bench, *claims) == ()
    assert bench.queue.end_reasoning(MODEL, REPLY, "alice") == "ok"
    assert sorted(beat(bench, *claims)) == ["a", "b"]
    assert sorted(beat(bench, *claims)) == ["a", "b"]


def test_whoever_claims_later_is_told_with_the_claim(bench: Bench) -> None:
    submit(bench, "a")
    assert bench.queue.end_reasoning(MODEL, REPLY, "alice") == "ok"
    (claim,) = bench.claim()
    assert claim.reasoning_ended
    bench.append(claim, 0, STARTED, delta("x"))
    bench.queue.engine_gone(MODEL, "e1")
    (again,) = bench.claim(1, "e2")
    assert again.reasoning_ended
    assert again.resume is not None
    assert beat(bench, again, engine="e2") == ("a",)


def test_others_are_not(bench: Bench) -> None:
    submit(bench, "a")
    (claim,) = bench.claim()
    assert not claim.reasoning_ended
    for reply, owner in ((REPLY, "bob"), ("chatcmpl-3", "alice"), ("", "alice")):
        assert bench.queue.end_reasoning(MODEL, reply, owner) == "unknown"
    assert bench.queue.end_reasoning("another model", REPLY, "alice") == "unknown"
    assert beat(bench, claim) == ()


def test_it_must_have_been_allowed(bench: Bench) -> None:
    submit(bench, "a", allowed=False)
    (claim,) = bench.claim()
    assert bench.queue.end_reasoning(MODEL, REPLY, "alice") == "not_enabled"
    assert beat(bench, claim) == ()


def test_what_has_ended_is_unknown(bench: Bench) -> None:
    submit(bench, "a")
    (claim,) = bench.claim()
    bench.append(claim, 0, STARTED, FINISHED)
    assert bench.queue.end_reasoning(MODEL, REPLY, "alice") == "unknown"


@pytest.mark.parametrize("allowed", [True, False])
def test_it_wakes_engines(bench: Bench, allowed: bool) -> None:
    submit(bench, "a", allowed=allowed)
    bench.claim()
    assert woken(bench, lambda: bench.queue.end_reasoning(MODEL, REPLY, "alice")) == allowed
