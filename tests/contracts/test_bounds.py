"""What waits is bounded, per model, per owner and in bytes; a refusal names its reason."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from llamaweb.lib.errors import BusyError
from tests.contracts.bench import MODEL, Bench


def refusal(bench: Bench, owner: str) -> BusyError:
    with pytest.raises(BusyError) as caught:
        bench.submit("one-more", owner=owner)
    assert caught.value.retry_after_s > 0
    assert bench.queue.status(MODEL, "one-more") is None
    return caught.value


def test_an_owner_may_not_fill_the_queue(bench: Bench) -> None:
    bench.submit(*(f"g{n}" for n in range(bench.config.max_queued_per_owner)))
    assert refusal(bench, "alice").reason == "owner_queue_full"
    bench.submit("b", owner="bob")


def test_the_queue_is_bounded(bench: Bench) -> None:
    bench.submit(*(f"g{n}" for n in range(bench.config.max_queued)[:30]))
    bench.submit(*(f"h{n}" for n in range(bench.config.max_queued)[30:]), owner="bob")
    assert refusal(bench, "carol").reason == "queue_full"


def test_what_left_the_queue_makes_room(bench: Bench) -> None:
    bench.submit(*(f"g{n}" for n in range(bench.config.max_queued_per_owner)))
    bench.claim()
    bench.submit("more")
    assert refusal(bench, "alice").reason == "owner_queue_full"
    bench.queue.cancel(MODEL, "more", "user")
    bench.submit("again")


@contextlib.contextmanager
def memory_nearly_full(bench: Bench) -> Iterator[None]:
    if bench.client is None:
        bench.full.append(True)
        yield
        bench.full.clear()
        return
    used = int(bench.client.info("memory")["used_memory"])  # type: ignore[index]
    bench.client.config_set("maxmemory", int(used * 1.1))
    try:
        yield
    finally:
        bench.client.config_set("maxmemory", 0)


def test_the_byte_budget_refuses_new_requests_only(bench: Bench) -> None:
    claim = bench.start("g")
    with memory_nearly_full(bench):
        assert refusal(bench, "alice").reason == "memory"
        assert bench.queue.cancel(MODEL, "g", "user")
        assert bench.queue.release(MODEL, "e1", "g", claim.epoch)
    bench.submit("one-more")
