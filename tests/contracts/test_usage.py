"""The usage ledger learns of each end that somebody answers for, once, whoever wrote it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from inference.protocol.events import Cancelled, Failed, Finished, Usage
from inference.queues.contract import UsageEntry
from llamaweb.lib.errors import BusyError
from tests.contracts.bench import MODEL, STARTED, Bench, delta, reconfigured

ACCOUNT = "7:3:openai"
END = Finished("stop", Usage(prompt_tokens=5, completion_tokens=2, cached_tokens=2))


def submit(bench: Bench, generation_id: str, account: str = ACCOUNT, **options: Any) -> None:
    request = replace(bench.request(generation_id, **options), account=account)
    bench.queue.submit(request, reader_id="web")


def start(bench: Bench, generation_id: str, **options: Any) -> Any:
    submit(bench, generation_id, **options)
    (claim,) = bench.claim()
    return claim


def taken(bench: Bench) -> list[tuple[str, str, Any]]:
    """What the ledger would write, acknowledged."""
    found: tuple[UsageEntry, ...] = bench.queue.usage(MODEL)
    bench.queue.usage_ack(MODEL, [entry.mark for entry in found])
    return [(entry.generation_id, entry.account, entry.end) for entry in found]


def test_an_end_is_told_until_it_is_acknowledged(bench: Bench) -> None:
    for generation_id in ("a", "b"):
        claim = start(bench, generation_id)
        assert bench.append(claim, 0, STARTED, delta("x"), END) == "ok"
    (first, second) = bench.queue.usage(MODEL)
    assert bench.queue.usage(MODEL, limit=1) == (first,)
    assert (first.generation_id, first.account, first.end) == ("a", ACCOUNT, END)
    assert abs(first.ended_at - bench.now()) < 60
    bench.queue.usage_ack(MODEL, [first.mark])
    assert bench.queue.usage(MODEL) == (second,)
    bench.queue.usage_ack(MODEL, [first.mark, second.mark])
    assert bench.queue.usage(MODEL) == ()
    bench.queue.usage_ack(MODEL, [])


def test_nobody_answers_for_a_request_without_an_account(bench: Bench) -> None:
    claim = start(bench, "a", account="")
    bench.append(claim, 0, STARTED, END)
    assert bench.queue.usage(MODEL) == ()


def test_a_terminal_event_that_comes_twice_counts_once(bench: Bench) -> None:
    claim = start(bench, "a")
    assert bench.append(claim, 0, STARTED, END) == "ok"
    assert bench.append(claim, 0, STARTED, END) == "stale"
    assert taken(bench) == [("a", ACCOUNT, END)]


def test_ends_that_the_queue_writes_carry_what_was_computed(bench: Bench) -> None:
    submit(bench, "waits")
    bench.queue.cancel(MODEL, "waits", "owner")
    assert taken(bench) == [("waits", ACCOUNT, Cancelled("owner"))]
    claim = start(bench, "late", within_s=2.0)
    bench.append(claim, 0, STARTED, delta("x", 1, 2, 3))
    bench.be_away(3.0)
    bench.queue.engine_gone(MODEL, "e1")
    ((_, account, end),) = taken(bench)
    assert account == ACCOUNT
    assert isinstance(end, Failed)
    assert (end.code, end.usage) == ("deadline_exceeded", Usage(5, 3, 2))


def test_a_dead_engine_s_request_counts_when_the_next_one_ends_it(bench: Bench) -> None:
    claim = start(bench, "a")
    bench.append(claim, 0, STARTED, delta("x"))
    bench.queue.engine_gone(MODEL, "e1")
    assert bench.queue.usage(MODEL) == ()
    (again,) = bench.claim(engine="e2")
    assert bench.append(again, 2, END, engine="e2") == "ok"
    assert taken(bench) == [("a", ACCOUNT, END)]


def test_a_restored_generation_that_has_ended_is_told(bench: Bench) -> None:
    claim = start(bench, "a")
    bench.append(claim, 0, STARTED, delta("x"))
    log = bench.queue.claim(MODEL, "e9", slots=0, idle=False)
    assert log == ()
    from inference.protocol.events import Entry
    from inference.protocol.fold import EMPTY, fold

    events = (STARTED, delta("x"), END)
    whole = fold(EMPTY, [Entry(seq, event) for seq, event in enumerate(events)])
    assert bench.queue.restore("e1", claim, whole)
    assert taken(bench) == [("a", ACCOUNT, END)]


def test_utility_requests_count_too(bench: Bench) -> None:
    request = replace(bench.utility("u"), account="7:0:embeddings")
    bench.queue.submit(request, reader_id="web")
    (claim,) = bench.claim()
    assert bench.append(claim, 0, END) == "ok"
    assert taken(bench) == [("u", "7:0:embeddings", END)]


def test_what_nobody_takes_is_bounded(bench: Bench) -> None:
    small = reconfigured(bench, max_usage=200)
    for number in range(450):
        submit(small, f"g{number}")
        small.queue.cancel(MODEL, f"g{number}", "user")
    left = small.queue.usage(MODEL, limit=1000)
    assert 200 <= len(left) < 450
    assert left[-1].generation_id == "g449"


def test_a_full_queue_tells_how_fast_it_moves_and_how_many_wait(bench: Bench) -> None:
    small = reconfigured(bench, max_queued=3)
    small.submit(*"abcdef"[:3])
    with pytest.raises(BusyError) as unknown:
        small.submit("x")
    assert (unknown.value.retry_after_s, unknown.value.position) == (5.0, 3)
    small.claim()
    for generation_id in "def":
        small.submit(generation_id)
        small.advance(20.0)
        small.claim()
    small.submit("g")
    with pytest.raises(BusyError) as known:
        small.submit("x")
    assert known.value.reason == "queue_full"
    assert known.value.position == 3
    assert 15.0 < known.value.retry_after_s < 30.0
