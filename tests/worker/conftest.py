"""A worker in this process: the in-memory queue, the mock engine, real threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from inference.protocol.events import Snapshot
from inference.protocol.fold import EMPTY, fold
from inference.protocol.params import Limits, SamplingParams
from inference.protocol.requests import ChatPrompt, GenerateRequest, Message
from inference.protocol.spec import EngineSpec, MockSpec
from inference.queues.contract import START, QueueConfig
from inference.queues.memory import MemoryQueue
from inference.worker.main import Worker
from llamaweb.lib.ids import new_id
from tests.stack import wait_for

MODEL = "mock"
CONFIG = QueueConfig(lease_s=2.0, heartbeat_s=0.05, reader_lease_s=1.0, reader_renew_s=0.2)
WAIT_S = 20.0


def generate(text: str = "hello", **values: Any) -> GenerateRequest:
    now = time.time()
    values = {
        "owner_key": "user:1",
        "cache_scope": "user:1",
        "seed": 1,
        "submitted_at": now,
        "deadline_at": now + 60,
        "sampling": SamplingParams(temperature=0.0),
        "keep": True,
        "prompt": ChatPrompt((Message("user", text),)),
        "limits": Limits(),
    } | values
    return GenerateRequest(new_id("gen-"), MODEL, **values)


class Bench:
    """Workers around one queue."""

    def __init__(self) -> None:
        self.queue = MemoryQueue(CONFIG)
        self._workers: list[tuple[Worker, threading.Thread]] = []
        self.at_end: list[Callable[[], None]] = []  # before workers stop

    def start(self, queue: Any = None, **spec: Any) -> Worker:
        """A worker that is ready."""
        worker = self.launch(queue, **spec)
        wait_for("a ready engine", self.is_ready, WAIT_S)
        return worker

    def launch(self, queue: Any = None, **spec: Any) -> Worker:
        """A worker that begins to load."""
        mock = MockSpec(**{k: spec.pop(k) for k in list(spec) if k in MockSpec.__slots__})
        spec = {"engine_class": "mock", "mock": mock} | spec
        worker = Worker(
            EngineSpec(MODEL, new_id("engine-"), "", "", **spec), queue or self.queue, CONFIG
        )
        thread = threading.Thread(target=worker.serve, daemon=True)
        thread.start()
        self._workers.append((worker, thread))
        return worker

    def is_ready(self) -> bool:
        return any(engine.state == "ready" for engine in self.queue.engines(MODEL))

    def submit(self, request: GenerateRequest, reader_id: str | None = None) -> str:
        self.queue.submit(request, reader_id=reader_id)
        return request.generation_id

    def log(self, generation_id: str) -> Snapshot:
        self.queue.reap(MODEL)  # as the supervisor does, all the time
        read = self.queue.read(MODEL, generation_id, START, limit=100_000)
        return fold(read.reset or EMPTY, read.entries)

    def ended(self, generation_id: str) -> Snapshot:
        def look() -> Snapshot | None:
            log = self.log(generation_id)
            return log if log.terminal else None

        found = wait_for(f"the end of {generation_id}", look, WAIT_S)
        assert found is not None
        return found

    def wait_text(self, generation_id: str, num_tokens: int = 1) -> None:
        wait_for(
            "some tokens", lambda: len(self.log(generation_id).token_ids) >= num_tokens, WAIT_S
        )

    def stop(self) -> None:
        for call in self.at_end:
            call()
        for worker, _ in self._workers:
            worker.drain()
        for _, thread in self._workers:
            thread.join(WAIT_S)
            assert not thread.is_alive()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.stop()
