"""Engines wait for news without asking over and over."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.contracts.bench import MODEL, Bench

DEADLINE_S = 10.0


def woken(bench: Bench, act: Callable[[], object]) -> bool:
    """Whether `act` wakes an engine that waits since before it."""
    mark = bench.queue.wait_control(MODEL, "", 0.01)
    marks: list[str] = []
    waiter = threading.Thread(
        target=lambda: marks.append(bench.queue.wait_control(MODEL, mark, 3.0))
    )
    waiter.start()
    act()
    waiter.join(DEADLINE_S)
    assert not waiter.is_alive()
    return marks != [mark]


@pytest.mark.parametrize("what", ["submit", "cancel", "release", "engine_gone"])
def test_news_wake_an_engine(bench: Bench, what: str) -> None:
    claim = bench.start("old")
    acts: dict[str, Callable[[], object]] = {
        "submit": lambda: bench.submit("new"),
        "cancel": lambda: bench.queue.cancel(MODEL, "old", "user"),
        "release": lambda: bench.queue.release(MODEL, "e1", "old", claim.epoch),
        "engine_gone": lambda: bench.queue.engine_gone(MODEL, "e1"),
    }
    assert woken(bench, acts[what])


def test_news_between_mark_and_wait_arent_missed(bench: Bench) -> None:
    mark = bench.queue.wait_control(MODEL, "", 0.01)
    bench.submit("g")
    after = bench.queue.wait_control(MODEL, mark, 3.0)
    assert after != mark
    assert bench.queue.wait_control(MODEL, after, 0.01) == after


def test_a_claim_doesnt_wake_engines(bench: Bench) -> None:
    bench.submit("g")
    mark = bench.queue.wait_control(MODEL, "", 0.01)
    assert bench.claimed_ids() == ["g"]
    assert bench.queue.wait_control(MODEL, mark, 0.05) == mark
