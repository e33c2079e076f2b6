"""What an engine says of itself: counters, times, batch fill, and a trace of steps and slots."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.engine.batch import Batch
from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.engine.mock_backend import MockBackend
from inference.engine.trace import Trace
from inference.protocol.events import Delta, Finished
from inference.protocol.params import Limits
from inference.protocol.spec import EngineSpec, MockSpec
from llamaweb.lib.clock import ManualClock
from llamaweb.lib.errors import InvalidError
from tests.engine.driving import GREEDY, ask, backend_of, make_engine, run, run_one

SECRET = "the secret prompt"


def timed_engine(**fields: Any) -> tuple[Engine, ManualClock]:
    """A decode takes 10 ms."""
    clock = ManualClock()
    engine = make_engine("x" * 20, clock=clock, **fields)
    backend = backend_of(engine)

    def take_time(_: Batch) -> None:
        clock.advance(0.01)

    backend.fault = take_time
    return engine, clock


def test_steps_rows_passes_and_times() -> None:
    engine, _ = timed_engine(batch_len=64, ubatch_len=64)
    engine.add(ask("a", "a" * 32, owner="user:1", limits=Limits(max_tokens=5)))
    engine.add(ask("b", "b" * 32, owner="user:2", limits=Limits(max_tokens=5)))
    run(engine)
    stats = engine.stats()
    assert stats["batch_rows"] == stats["prompt_tokens"] + 8  # the fifth token isn't evaluated
    assert stats["batch_room"] == 64 * stats["steps"]
    assert stats["busy_s"] == pytest.approx(0.01 * stats["steps"])
    assert stats["step_s"] == pytest.approx(stats["busy_s"])
    assert stats["decode_step_s"] == pytest.approx(0.01 * stats["decode_steps"])
    assert stats["longest_step_s"] == pytest.approx(0.01)
    assert stats["decode_ubatches"] == stats["decode_steps"] > 0


def test_each_token_tells_the_time_up_to_it_where_that_is_asked() -> None:
    engine, _ = timed_engine()
    sampling = replace(GREEDY, timings_per_token=True)
    found = run_one(engine, ask("a", "hello", sampling=sampling, limits=Limits(max_tokens=3)))
    told = [event.timings for event in found if isinstance(event, Delta)]
    end = found[-1]
    assert isinstance(end, Finished)
    assert [each and each.decode_ms for each in told] == pytest.approx([0.0, 10.0, 20.0])
    assert {each and each.prefill_ms for each in told} == {end.timings.prefill_ms}
    assert told[-1] == end.timings
    plain = run_one(engine, ask("b", "hello", limits=Limits(max_tokens=3)))
    assert [event.timings for event in plain if isinstance(event, Delta)] == [None] * 3


def test_hits_are_counted_by_tier() -> None:
    engine = make_engine(num_slots=2)
    run_one(engine, ask("a", "p" * 100, limits=Limits(max_tokens=1)))
    run_one(engine, ask("b", "p" * 100, limits=Limits(max_tokens=1)))
    stats = engine.stats()
    assert (stats["cache_missed_tokens"], stats["cache_slot_hit_tokens"]) == (101, 99)
    assert (stats["cache_copy_hit_tokens"], stats["cache_host_hit_tokens"]) == (0, 0)
    assert stats["cache_slot_tokens"] == 100


def test_a_trace_shows_steps_and_slots_and_no_text(tmp_path: Path) -> None:
    clock = ManualClock()
    path = tmp_path / "trace.json"
    backend = MockBackend(MockSpec(reply="hello"), num_seqs=2)
    backend.fault = lambda _: clock.advance(0.01)
    engine = Engine(backend, clock=clock, trace=Trace(path, 2))
    engine.add(ask("a", SECRET))
    engine.add(ask("b", SECRET + "!" * 100, owner="user:2"))
    run(engine)
    engine.close()
    text = path.read_text()
    events = json.loads(text)
    assert "secret" not in text
    assert "hello" not in text
    spans = [event for event in events if event["ph"] == "X"]
    steps = [span for span in spans if span["tid"] == 0]
    assert len(steps) == engine.stats()["steps"]
    assert all(span["dur"] == pytest.approx(10_000) for span in steps)
    assert sum(span["args"]["rows_prompt"] for span in steps) == engine.stats()["prompt_tokens"]
    phases = [(span["args"]["generation"], span["name"]) for span in spans if span["tid"]]
    assert sorted(phases) == [
        (who, name) for who in ("a", "b") for name in ("decode", "prefill", "waiting")
    ]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {"steps", "slot 0", "slot 1"}


def test_a_trace_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    spec = EngineSpec("m", "e", "", "", engine_class="mock", trace_path=str(tmp_path / "no" / "t"))
    with pytest.raises(InvalidError) as caught:
        build_engine(spec)
    assert caught.value.param == "trace_path"
    good = tmp_path / "trace.json"
    spec = EngineSpec("m", "e", "", "", engine_class="mock", trace_path=str(good))
    engine, _ = build_engine(spec)
    assert isinstance(engine, Engine)
    run_one(engine, ask("a"))
    engine.close()
    assert len(json.loads(good.read_text())) > 5
