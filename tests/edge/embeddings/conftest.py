"""The routes over a real engine on the mock, asked without a queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from inference.engine.errors import failed_event
from inference.engine.serving import build_serving
from inference.protocol.events import Event
from inference.protocol.spec import EngineSpec, MockSpec
from tests.fakes.inference_api import FakeInference

MAX_STEPS = 1000


@pytest.fixture
def engine(fake: FakeInference) -> Iterator[Callable[..., FakeInference]]:
    """Let requests be computed by a mock engine of these settings; those of `MockSpec` too."""
    made = []

    def use(**fields: Any) -> FakeInference:
        mock = MockSpec(**{k: fields.pop(k) for k in list(fields) if k in MockSpec.__slots__})
        spec = EngineSpec("tiny", "e", "", "", engine_class="mock", mock=mock, **fields)
        engine, pipeline = build_serving(spec)
        made.append((engine, pipeline))

        async def script(request: Any) -> AsyncIterator[Event]:
            try:
                engine.add(pipeline.prepare_vectors(request))
            except Exception as error:
                yield failed_event(error)
                return
            for _ in range(MAX_STEPS):
                if not engine.has_work:
                    break
                for item in engine.step():
                    yield item.event

        fake.script = script
        return fake

    yield use
    for engine_made, pipeline in made:
        pipeline.close()
        engine_made.close()
