"""A worker of its own thread, with all it has, for a `FakeInference` to ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from inference.protocol.events import Event, is_terminal
from inference.protocol.requests import EngineRequest, GenerateRequest
from inference.queues.contract import START
from tests.worker.conftest import MODEL, WAIT_S, Bench

LOOK_S = 0.002


class Worked:
    """`script` is what a `FakeInference` wants: it asks the workers of `bench`."""

    def __init__(self, bench: Bench) -> None:
        self._queue = bench.queue

    async def script(self, request: EngineRequest) -> AsyncIterator[Event]:
        """The events of one request."""
        if isinstance(request, GenerateRequest):
            request = replace(request, keep=True)  # nobody renews a lease here
        self._queue.submit(replace(request, model=MODEL))
        cursor = START
        async with asyncio.timeout(WAIT_S):
            while True:
                read = self._queue.read(MODEL, request.generation_id, cursor)
                cursor = read.cursor
                for entry in read.entries:
                    yield entry.event
                    if is_terminal(entry.event):
                        return
                await asyncio.sleep(LOOK_S)
