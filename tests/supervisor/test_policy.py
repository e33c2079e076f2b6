"""When a dead engine starts again."""

from __future__ import annotations

import signal

import pytest

from inference.protocol.spec import EXIT_UNSERVABLE
from inference.supervisor.policy import (
    MAX_DELAY_S,
    STEADY_S,
    UNSERVABLE_RETRY_S,
    Restart,
    after_exit,
    after_ready,
)

NO_CONTEXT = "no context of 8192 tokens for 4 slots could be made; a smaller one needs less memory"


def crash(state: Restart, lived_s: float = 1.0) -> Restart:
    return after_exit(state, exit_code=-signal.SIGSEGV, lived_s=lived_s, last_line="")


def test_crashes_back_off_and_stop_growing() -> None:
    state, delays = Restart(), []
    for _ in range(8):
        state = crash(state)
        delays.append(state.delay_s)
    assert delays == [1, 2, 4, 8, 16, MAX_DELAY_S, MAX_DELAY_S, MAX_DELAY_S]
    assert "SIGSEGV" in state.reason


def test_a_steady_life_is_forgiven() -> None:
    state = crash(crash(crash(Restart())))
    assert crash(state, lived_s=STEADY_S).delay_s == 1


def test_an_illegal_instruction_turns_the_extra_buffers_off_once() -> None:
    first = after_exit(Restart(), exit_code=-signal.SIGILL, lived_s=1, last_line="")
    assert (first.delay_s, first.use_extra_bufts) == (0, False)
    second = after_exit(first, exit_code=-signal.SIGILL, lived_s=1, last_line="")
    assert (second.delay_s, second.use_extra_bufts) == (1, False)


def test_an_unservable_model_says_why_and_waits() -> None:
    state = after_exit(
        Restart(), exit_code=EXIT_UNSERVABLE, lived_s=1, last_line="no such file: x.gguf"
    )
    assert state.is_unservable
    assert (state.delay_s, state.reason) == (UNSERVABLE_RETRY_S, "no such file: x.gguf")
    assert not crash(state).is_unservable


def test_a_drained_engine_starts_at_once() -> None:
    state = after_exit(crash(Restart()), exit_code=0, lived_s=1, last_line="")
    assert (state.delay_s, state.failures) == (0, 0)


def failed_load(state: Restart, exit_code: int, last_line: str = "") -> Restart:
    return after_exit(state, exit_code=exit_code, lived_s=1, last_line=last_line, was_ready=False)


@pytest.mark.parametrize(
    ("exit_code", "last_line"),
    [(-signal.SIGKILL, ""), (EXIT_UNSERVABLE, NO_CONTEXT), (1, "MemoryError")],
)
def test_a_load_without_memory_is_tried_once_more(exit_code: int, last_line: str) -> None:
    first = failed_load(Restart(), exit_code, last_line)
    assert (first.is_unservable, first.is_short, first.failed_loads) == (False, True, 1)
    second = failed_load(first, exit_code, last_line)
    assert (second.is_unservable, second.is_short, second.failed_loads) == (True, True, 0)
    assert second.delay_s == UNSERVABLE_RETRY_S


def test_a_load_that_crashes_is_tried_once_more() -> None:
    first = failed_load(Restart(), 1, "something broke")
    assert (first.is_unservable, first.is_short) == (False, False)
    second = failed_load(first, 1, "something broke")
    assert second.is_unservable
    assert second.reason == "it died (exit code 1); twice"


def test_a_file_that_cannot_be_served_is_not_tried_again() -> None:
    assert failed_load(Restart(), EXIT_UNSERVABLE, "not a model").is_unservable


def test_a_load_that_works_forgets_the_failed_one() -> None:
    state = after_ready(failed_load(Restart(), -signal.SIGKILL))
    assert not failed_load(state, -signal.SIGKILL).is_unservable
