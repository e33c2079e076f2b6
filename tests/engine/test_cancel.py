"""A cancel frees the slot at once, wherever the sequence is."""

from __future__ import annotations

import time

import pytest

from inference.engine.config import EngineConfig
from inference.protocol.events import Cancelled, Event
from inference.protocol.spec import MockSpec
from llamaweb.lib.clock import SystemClock
from tests.engine.driving import ask, collect, make_engine, run, run_one, started, terminal

LONG = "x" * 30_000
CANCEL_WITHIN_S = 1.0


def test_during_a_long_prefill_the_current_batch_is_short() -> None:
    engine = make_engine(spec=MockSpec(prefill_ms_per_token=1.0), clock=SystemClock())
    engine.add(ask("a", LONG))
    for _ in range(3):
        began = time.monotonic()
        engine.step()
        assert time.monotonic() - began < CANCEL_WITHIN_S
    (item,) = engine.abort("a", "user")
    assert isinstance(item.event, Cancelled)
    assert item.event.usage.prompt_tokens == 30_000
    assert engine.free_slots == 4
    assert not engine.has_work


def test_even_a_very_slow_model_is_left_within_a_step() -> None:
    slept: list[float] = []
    spec = MockSpec(prefill_ms_per_token=100.0, delay_ms=60_000)
    engine = make_engine(spec=spec, sleep=slept.append)
    engine.add(ask("a", "x" * 500))
    engine.step()
    engine.step()
    assert max(slept) <= 2 * CANCEL_WITHIN_S


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_in_every_phase(steps: int) -> None:
    engine = make_engine("hello", num_slots=1)
    engine.add(ask("a", "prompt"))
    out: dict[str, list[Event]] = {}
    for _ in range(steps):
        collect(out, engine.step())
    collect(out, engine.abort("a", "reader_gone"))
    event = terminal(out["a"])
    assert isinstance(event, Cancelled)
    assert (event.by, event.usage.completion_tokens) == ("reader_gone", steps)
    assert engine.free_slots == 1
    assert engine.step() == []
    assert engine.abort("a", "user") == []


def test_what_was_computed_stays_for_the_next_try() -> None:
    engine = make_engine(batch_len=64, ubatch_len=64, config=EngineConfig())
    engine.add(ask("a", "x" * 1000))
    for _ in range(5):
        engine.step()
    engine.abort("a", "user")
    assert started(run_one(engine, ask("b", "x" * 1000))).cached_tokens == 32 + 4 * 64


def test_a_dropped_sequence_leaves_without_a_word() -> None:
    engine = make_engine("hello")
    engine.add(ask("a"))
    engine.add(ask("b"))
    engine.step()
    engine.drop("a")
    engine.drop("unknown")
    assert engine.free_slots == 3
    assert set(run(engine)) == {"b"}
