"""An engine that dies by a real SIGILL: the answer goes on; one that kills engines is given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import schedule
from tests.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


def crashing_after(num_tokens: str) -> dict[str, str]:
    """Slow enough that what was computed before a crash was published."""
    return {"LLAMAWEB_MOCK_CRASH_AFTER": num_tokens, "LLAMAWEB_MOCK_DELAY_MS": "20"}


def test_the_answer_goes_on_and_the_buffers_are_switched_off(tmp_path: Path) -> None:
    text = "forty characters of an answer, cut once."
    with Stack(tmp_path, env=crashing_after("30")) as stack:
        stack.wait_ready()
        (row,) = schedule.end(schedule.begin(stack, [text]))
        stack.wait_output("extra CPU buffers off")
        assert (row["state"], row["stored"], row["followed"]) == ("finished", text, text)


def test_a_request_that_kills_engines_fails_after_two_deaths(tmp_path: Path) -> None:
    text = "x" * 200
    with Stack(tmp_path, env=crashing_after("20")) as stack:
        stack.wait_ready()
        (row,) = schedule.end(schedule.begin(stack, [text]))
        assert row["state"] == "failed"
        assert row["stored"] == row["followed"]
        assert 0 < len(row["stored"]) <= 60
        assert "engine" in row["error"]
