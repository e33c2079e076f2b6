"""An engine that is paused past its lease and wakes up writes nothing twice."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from inference.queues.contract import QueueConfig
from inference.queues.redis_queue import RedisQueue
from tests.faults import schedule
from tests.faults.conftest import queue_of
from tests.stack import ROOT, Stack, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

MODEL = "mock"


def num_ready(queue: RedisQueue) -> int:
    return sum(engine.state == "ready" for engine in queue.engines(MODEL))


def test_a_second_engine_takes_over_and_the_first_finds_its_lease_gone(stack: Stack) -> None:
    queue = queue_of(stack)
    prompts = [schedule.answer_of(i) for i in range(3)]
    driver = schedule.begin(stack, prompts)
    wait_for("all run", lambda: queue.load(MODEL).running == 3, 20)
    first = stack.wait_process("engine")
    second = subprocess.Popen(
        [sys.executable, "manage.py", "runengine"],
        cwd=ROOT,
        env=stack.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        first.send_signal(signal.SIGSTOP)
        paused_ts = time.monotonic()
        wait_for("a second engine", lambda: num_ready(queue) == 2, 30)
        lease_s = QueueConfig().lease_s
        wait_for("twice the lease", lambda: time.monotonic() - paused_ts > 2 * lease_s, 30)
        first.send_signal(signal.SIGCONT)
        rows = schedule.end(driver)
    finally:
        first.send_signal(signal.SIGCONT)
        second.terminate()
        second.wait(15)
    assert [row["stored"] for row in rows] == prompts
    assert [row["followed"] for row in rows] == prompts
    assert [row["resets"] for row in rows] == [0, 0, 0]
