"""What waits past its deadline ends."""

from __future__ import annotations

from inference.protocol.events import Failed
from inference.queues.contract import START
from tests.contracts.bench import MODEL, Bench


def code_of(bench: Bench, generation_id: str) -> str:
    (entry,) = bench.queue.read(MODEL, generation_id, START).entries
    assert isinstance(entry.event, Failed)
    return entry.event.code


def test_the_sweep_ends_it(bench: Bench) -> None:
    bench.submit("g", within_s=10)
    bench.advance(9)
    assert bench.queue.reap(MODEL).failed == ()
    bench.advance(2)
    assert bench.queue.reap(MODEL).failed == ("g",)
    assert code_of(bench, "g") == "deadline_exceeded"


def test_a_claim_passes_over_it(bench: Bench) -> None:
    bench.submit("g", within_s=10)
    bench.submit("h")
    bench.advance(11)
    assert bench.claimed_ids(4) == ["h"]
    assert code_of(bench, "g") == "deadline_exceeded"


def test_a_dead_engines_request_past_its_deadline_ends(bench: Bench) -> None:
    bench.start("g", within_s=2)
    bench.advance(bench.config.lease_s + 1)
    reaped = bench.queue.reap(MODEL)
    assert (reaped.requeued, reaped.failed) == ((), ("g",))
    assert code_of(bench, "g") == "deadline_exceeded"


def test_a_running_one_is_its_engines_business(bench: Bench) -> None:
    bench.start("g", within_s=2)
    bench.advance(3)
    assert bench.queue.reap(MODEL).failed == ()
