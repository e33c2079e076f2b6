"""Submit is idempotent, and everything asked for is known from then on."""

from __future__ import annotations

from inference.queues.contract import Position
from tests.contracts.bench import FINISHED, MODEL, STARTED, Bench


def test_first_in_an_empty_queue(bench: Bench) -> None:
    assert bench.queue.submit(bench.request("g")) == Position(ahead=0, waiting=1)
    status = bench.queue.status(MODEL, "g")
    assert status is not None
    assert (status.state, status.last_seq, status.deaths) == ("queued", -1, 0)
    assert status.position == Position(ahead=0, waiting=1)
    assert bench.queue.models() == (MODEL,)


def test_a_repeat_changes_nothing_while_queued(bench: Bench) -> None:
    bench.submit("a", "b")
    first = bench.queue.load(MODEL)
    assert bench.queue.submit(bench.request("b")) == Position(ahead=1, waiting=2)
    assert bench.queue.load(MODEL) == first


def test_a_repeat_changes_nothing_while_running_and_after_the_end(bench: Bench) -> None:
    claim = bench.start()
    bench.submit("g")
    assert bench.claimed_ids(4) == []
    assert bench.append(claim, 0, STARTED, FINISHED) == "ok"
    bench.submit("g")
    assert bench.claimed_ids(4) == []
    status = bench.queue.status(MODEL, "g")
    assert status is not None
    assert status.state == "ended"


def test_a_repeat_is_no_refusal_when_the_queue_is_full(bench: Bench) -> None:
    for number in range(bench.config.max_queued_per_owner):
        bench.submit(f"g{number}")
    bench.submit("g0")
    assert bench.queue.load(MODEL).waiting == bench.config.max_queued_per_owner


def test_the_engine_gets_the_request_as_it_was(bench: Bench) -> None:
    request = bench.request("g", lane="background", on_finish="store")
    bench.queue.submit(request)
    (claim,) = bench.claim()
    assert claim.request == request


def test_models_have_queues_of_their_own(bench: Bench) -> None:
    bench.submit("a")
    bench.submit("b", model="odd {name}: x")
    assert bench.claimed_ids(4) == ["a"]
    (claim,) = bench.queue.claim("odd {name}: x", "e2", slots=4, idle=True)
    assert claim.request.generation_id == "b"
    assert bench.queue.models() == ("odd {name}: x", MODEL)


def test_nothing_is_known_of_a_stranger(bench: Bench) -> None:
    assert bench.queue.status(MODEL, "g") is None
