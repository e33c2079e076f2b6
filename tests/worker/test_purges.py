"""Orders to forget reach the prompt cache of every engine of a model."""

from __future__ import annotations

from typing import Any

import pytest

from inference.protocol.events import Started
from inference.protocol.params import ContextParams
from inference.protocol.requests import TextPrompt
from inference.queues.contract import Beat, BeatReply, CachePurge
from inference.queues.memory import MemoryQueue
from inference.worker.main import Worker
from llamaweb.lib.errors import UnavailableError
from tests.stack import wait_for
from tests.worker.conftest import MODEL, WAIT_S, Bench, generate

PROMPT = TextPrompt("p" * 200)


class Door:
    """The queue, behind a door that an engine's heartbeats can be kept out by."""

    def __init__(self, queue: MemoryQueue) -> None:
        self._queue = queue
        self.is_open = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def beat(self, model: str, beat: Beat) -> BeatReply:
        if not self.is_open:
            raise UnavailableError("redis is away")
        return self._queue.beat(model, beat)


def ask(bench: Bench, conversation: str) -> int:
    """Cached tokens of a request in `conversation`, served by whichever engine is free."""
    context = ContextParams(conversation=conversation)
    log = bench.ended(bench.submit(generate(prompt=PROMPT, context=context)))
    assert isinstance(log.started, Started)
    return log.started.cached_tokens


def held(worker: Worker) -> int:
    """Tokens in its prompt cache."""
    assert worker._engine is not None
    return int(worker._engine.stats()["cache_slot_tokens"])


@pytest.mark.parametrize(
    ("purge", "kept"),
    [
        (CachePurge(), 0),
        (CachePurge(conversations=("c2", "c1")), 0),
        (CachePurge(owner_key="user:1"), 0),
        (CachePurge(conversations=("c2", "c3")), 199),
        (CachePurge(owner_key="somebody:9"), 199),
    ],
)
def test_the_cache_is_cleared_of_what_is_meant(bench: Bench, purge: CachePurge, kept: int) -> None:
    worker = bench.start(num_slots=1)
    assert ask(bench, "c1") == 0
    assert ask(bench, "c1") == 199
    bench.queue.purge(MODEL, purge)
    wait_for("the order", lambda: worker._heartbeat._mark == "1", WAIT_S)
    assert ask(bench, "c1") == kept


def test_every_engine_forgets_also_one_that_was_away(bench: Bench) -> None:
    door = Door(bench.queue)
    workers = [bench.start(num_slots=1), bench.start(door, num_slots=1)]
    for _ in range(20):  # until each of them has served one
        ask(bench, "c1")
        if all(map(held, workers)):
            break
    assert all(map(held, workers))
    door.is_open = False
    bench.queue.purge(MODEL, CachePurge(conversations=("c1",)))
    wait_for("an empty cache", lambda: held(workers[0]) == 0, WAIT_S)
    assert held(workers[1])
    door.is_open = True
    wait_for("the other empty cache", lambda: held(workers[1]) == 0, WAIT_S)
