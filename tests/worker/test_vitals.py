"""What a heartbeat says besides counters."""

from __future__ import annotations

import os

import pytest

from inference.worker.vitals import (
    RATE_OVER_S,
    TELL_EVERY_S,
    LoadProgress,
    Vitals,
    memory_bytes,
)
from llamaweb.lib.clock import ManualClock
from tests.stack import wait_for
from tests.worker.conftest import MODEL, WAIT_S, Bench, generate


def test_rates_are_of_the_last_seconds() -> None:
    clock = ManualClock()
    vitals = Vitals(clock.monotonic)
    tokens, rates = 0, []
    for step in range(20):
        info = vitals.of({"generated_tokens": tokens, "prompt_tokens": 100})
        rates.append(info["tokens_per_s"])
        clock.advance(0.5)
        tokens += 10 if step < 10 else 0
    assert rates[0] == 0.0
    assert rates[1:11] == [20.0] * 10
    assert rates[-1] == 0.0
    assert info["prompt_tokens_per_s"] == 0.0
    assert info["uptime_s"] == pytest.approx(19 * 0.5)
    assert 0 < len(vitals._seen) <= RATE_OVER_S / 0.5 + 2


def test_two_beats_at_once_divide_by_nothing() -> None:
    vitals = Vitals(ManualClock().monotonic)
    for _ in range(3):
        assert vitals.of({"generated_tokens": 5})["tokens_per_s"] == 0.0


def test_memory() -> None:
    assert memory_bytes() > 2**20


def test_an_engine_says_it(bench: Bench) -> None:
    bench.start(delay_ms=5)
    bench.submit(generate("a long text, letter by letter" * 9))

    def rate() -> float:
        (engine,) = bench.queue.engines(MODEL)
        assert engine.info["pid"] == os.getpid()
        return float(engine.info["tokens_per_s"])

    assert wait_for("a rate", rate, WAIT_S) > 0


def test_a_load_is_told_a_few_times_a_second_and_never_goes_back() -> None:
    clock, beats, wanted = ManualClock(), [], [True]
    progress = LoadProgress(
        beat=lambda: beats.append(progress.info()["load_progress"]),
        is_wanted=lambda: wanted[0],
        monotonic=clock.monotonic,
    )
    assert progress.info() == {}
    for step in range(101):  # a second, and a tensor every 10 ms
        assert progress.tell(step / 100)
        clock.advance(0.01)
    assert 1 < len(beats) <= 1 / TELL_EVERY_S + 1
    assert beats == sorted(set(beats))
    progress.tell(0.5)
    progress.tell(7.0)
    assert progress.info() == {"load_progress": 1.0}
    wanted[0] = False
    assert not progress.tell(1.0)


def load_progress(bench: Bench) -> float:
    """Of the engine that loads; 0 before it has said it."""
    (engine,) = bench.queue.engines(MODEL) or (None,)
    return 0.0 if engine is None else float(engine.info.get("load_progress", 0.0))


def test_a_loading_engine_says_how_far_it_is(bench: Bench) -> None:
    worker = bench.launch(load_ms=10 * WAIT_S * 1e3)

    def is_told() -> bool:
        engines = bench.queue.engines(MODEL)
        shares = [engine.info.get("load_progress", 0.0) for engine in engines]
        return [e.state for e in engines] == ["loading"] and 0 < float(shares[0]) < 1

    wait_for("some of it", is_told, WAIT_S)
    worker.drain()


def test_a_ready_engine_speaks_of_no_load(bench: Bench) -> None:
    bench.start(load_ms=1)
    (engine,) = bench.queue.engines(MODEL)
    assert "load_progress" not in engine.info


@pytest.mark.parametrize("patient", [False, True])
def test_a_drain_breaks_a_load_off(bench: Bench, patient: bool) -> None:
    worker = bench.launch(load_ms=10 * WAIT_S * 1e3)
    wait_for("some of it", lambda: load_progress(bench) > 0, WAIT_S)
    waiting = bench.submit(generate("later"))
    worker.drain(patient=patient)
    wait_for("its end", lambda: bench.queue.engines(MODEL)[0].state == "stopped", WAIT_S)
    status = bench.queue.status(MODEL, waiting)
    assert status is not None
    assert (status.state, status.deaths) == ("queued", 0)


def test_a_patient_drain_lets_answers_end_and_takes_nothing_more(bench: Bench) -> None:
    worker = bench.start(delay_ms=5)
    gid = bench.submit(generate("a long text, letter by letter" * 9))
    bench.wait_text(gid, 5)
    worker.drain(patient=True)
    wait_for("draining", lambda: bench.queue.engines(MODEL)[0].state == "draining", WAIT_S)
    later = bench.submit(generate("later"))
    log = bench.ended(gid)
    assert len(log.token_ids) > 200
    wait_for("its end", lambda: bench.queue.engines(MODEL)[0].state == "stopped", WAIT_S)
    status = bench.queue.status(MODEL, later)
    assert status is not None
    assert status.state == "queued"


def test_a_drain_can_be_hurried(bench: Bench) -> None:
    worker = bench.start(delay_ms=200)
    gid = bench.submit(generate("a long text, letter by letter" * 99))
    bench.wait_text(gid, 1)
    worker.drain(patient=True)
    worker.drain()
    wait_for("its end", lambda: bench.queue.engines(MODEL)[0].state == "stopped", WAIT_S)
    status = bench.queue.status(MODEL, gid)
    assert status is not None
    assert (status.state, status.deaths) == ("queued", 0)
