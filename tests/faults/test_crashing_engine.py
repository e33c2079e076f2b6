"""An engine that dies by a real SIGILL: the answer goes on; one that kills engines is given up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults import schedule
from tests.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

CRASH_AFTER = 25  # tokens of an engine's life
# Slow enough that what was computed before a crash was published.
ENV = {"LLAMAWEB_MOCK_CRASH_AFTER": str(CRASH_AFTER), "LLAMAWEB_MOCK_DELAY_MS": "20"}


@pytest.fixture(scope="module")
def crashing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("crashing"), env=ENV) as stack:
        stack.wait_ready()
        yield stack


def test_the_answer_goes_on_and_the_buffers_are_switched_off(crashing: Stack) -> None:
    text = "forty characters of an answer, cut once."
    (row,) = schedule.end(schedule.begin(crashing, [text]))
    crashing.wait_output("extra CPU buffers off")
    assert (row["state"], row["stored"], row["followed"]) == ("finished", text, text)


def test_a_request_that_kills_engines_fails_after_two_deaths(crashing: Stack) -> None:
    text = "x" * 200
    (row,) = schedule.end(schedule.begin(crashing, [text]))
    assert row["state"] == "failed"
    assert row["stored"] == row["followed"]
    assert 0 < len(row["stored"]) <= 3 * CRASH_AFTER
    assert "engine" in row["error"]
