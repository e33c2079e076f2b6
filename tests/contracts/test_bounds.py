"""What waits is bounded, per model, per owner and in bytes; a refusal names its reason."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from inference.protocol.requests import TextPrompt
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


def test_an_owner_may_not_fill_the_memory(bench: Bench) -> None:
    big = TextPrompt("x" * (bench.config.max_queued_bytes_per_owner * 2 // 5))

    def submit(name: str, owner: str = "alice") -> None:
        bench.queue.submit(replace(bench.request(name, owner=owner), prompt=big))

    submit("a")
    submit("b")
    with pytest.raises(BusyError) as caught:
        submit("c")
    assert caught.value.reason == "owner_queue_bytes"
    assert bench.queue.status(MODEL, "c") is None
    submit("b1", "bob")
    bench.submit("small")
    bench.claim()
    submit("c")
    for name in ("b", "c", "b1"):
        bench.queue.cancel(MODEL, name, "user")
    submit("d")
    submit("e")


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
