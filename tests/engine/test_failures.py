"""A failure costs its batch, a crash its process, and neither the engine."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys

import pytest

from inference.engine.batch import Batch
from inference.engine.errors import BackendError, failed_event
from inference.protocol.spec import MockSpec
from llamaweb.lib.errors import BusyError, FailedError, InvalidError
from tests.engine.driving import ask, backend_of, failed, make_engine, run, run_one, text_of

CRASH = """
from tests.engine.driving import ask, make_engine, run_one
from inference.protocol.spec import MockSpec
engine = make_engine(spec=MockSpec(reply="hello", crash_after={after}, crash_signal="{name}"))
run_one(engine, ask("a"))
"""


def fail_once(batch: Batch) -> None:
    raise BackendError("no room in the KV cache")


def test_a_decode_error_fails_that_batch_and_nothing_else() -> None:
    engine = make_engine("hello")
    engine.add(ask("a", "one"))
    engine.add(ask("b", "two"))
    engine.step()
    backend_of(engine).fault = fail_once
    engine.step_events = engine.step()  # type: ignore[attr-defined]
    backend_of(engine).fault = None
    assert {item.generation_id for item in engine.step_events} == {"a", "b"}  # type: ignore[attr-defined]
    assert engine.free_slots == 4
    assert text_of(run_one(engine, ask("c", "one"))) == "hello"
    assert engine.stats()["failed"] == 2


def test_what_was_in_a_failed_batch_is_not_reused() -> None:
    engine = make_engine("hello")
    engine.add(ask("a", "x" * 100))
    engine.step()
    backend_of(engine).fault = fail_once
    engine.step()
    backend_of(engine).fault = None
    events = run_one(engine, ask("b", "x" * 100))
    assert events[0].cached_tokens == 0  # type: ignore[union-attr]


def test_a_waiting_sequence_survives_the_batch_of_its_leader() -> None:
    engine = make_engine("hello", batch_len=64, ubatch_len=64)
    engine.add(ask("leader", "x" * 300))
    engine.add(ask("follower", "x" * 310))
    engine.step()
    backend_of(engine).fault = fail_once
    out = {item.generation_id: [item.event] for item in engine.step()}
    backend_of(engine).fault = None
    assert set(out) == {"leader"}
    assert text_of(run(engine)["follower"]) == "hello"


def test_a_scripted_failure_ends_one_sequence() -> None:
    engine = make_engine(spec=MockSpec(reply="hello world", fail_after=5))
    event = failed(run_one(engine, ask("a")))
    assert (event.code, event.retryable) == ("engine_failed", True)
    assert event.usage.completion_tokens == 5
    assert engine.free_slots == 4


def test_a_failure_logs_no_text(caplog: pytest.LogCaptureFixture) -> None:
    def leak(batch: Batch) -> None:
        raise RuntimeError("canary prompt")

    engine = make_engine("hello")
    backend_of(engine).fault = leak
    with caplog.at_level(logging.DEBUG):
        event = failed(run_one(engine, ask("a", "canary prompt")))
    assert "RuntimeError" in caplog.text
    assert "canary" not in caplog.text + event.message


@pytest.mark.parametrize("name", ["SIGILL", "SIGKILL"])
def test_a_scripted_crash_is_a_real_signal(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CRASH.format(after=3, name=name)],
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert ended.returncode == -signal.Signals[name], ended.stderr


def test_no_crash_before_its_time() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CRASH.format(after=30, name="SIGILL")], check=False, timeout=60
    )
    assert ended.returncode == 0


def test_errors_become_terminal_events() -> None:
    assert failed_event(InvalidError("no", param="stop")).param == "stop"
    assert failed_event(BusyError("full", reason="x", retry_after_s=1)).code == "busy"
    assert failed_event(FailedError("x")).code == "engine_failed"
    assert "secret" not in failed_event(ValueError("secret")).message
