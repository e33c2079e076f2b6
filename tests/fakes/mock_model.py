"""The mock engine with its pipeline in this process, for a `FakeInference` to ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from inference.engine.errors import failed_event
from inference.engine.serving import build_serving
from inference.protocol.events import Event, Finished, Result
from inference.protocol.requests import (
    CountRequest,
    EmbedRequest,
    EngineRequest,
    GenerateRequest,
    RerankRequest,
)
from inference.protocol.results import CountResult
from inference.protocol.spec import EngineSpec, MockSpec
from inference.queues.contract import Position, Read
from inference.text.answer.reader import AnswerReader
from inference.text.chat_template import CHATML_TEMPLATE

MAX_STEPS = 20_000
# Of a model that thinks and calls tools: a comment names the family, the mock says what it's told.
HERMES = CHATML_TEMPLATE + "{# <think> <tool_call> #}"


class MockModel:
    """Says `reply`, or the last message again, as a model with the chat template `template` would.
    `script` is what a `FakeInference` wants; `close` ends its processes."""

    def __init__(
        self,
        reply: str = "",
        *,
        template: str | None = None,
        fail_after: int = 0,
        context_len: int = 4096,
    ) -> None:
        self._engine, self._pipeline = build_serving(
            EngineSpec(
                model="tiny",
                engine_id="test",
                redis_url="",
                redis_prefix="",
                engine_class="mock",
                context_len=context_len,
                chat_template=template,
                mock=MockSpec(reply=reply, fail_after=fail_after),
            )
        )

    async def script(self, request: EngineRequest) -> AsyncIterator[Event | Position | Read]:
        """The events of one request, which runs alone."""
        await asyncio.sleep(0)
        try:
            if isinstance(request, CountRequest):
                yield Result(CountResult(self._pipeline.count(request.prompt)))
                yield Finished("stop")
                return
            reader = None
            if isinstance(request, EmbedRequest | RerankRequest):
                self._engine.add(self._pipeline.prepare_vectors(request))
            else:
                assert isinstance(request, GenerateRequest)
                prepared = self._pipeline.prepare(request)
                reader = self._pipeline.reader(request, prepared)
                self._engine.add(prepared)
        except Exception as error:
            yield failed_event(error)
            return
        for _ in range(MAX_STEPS):
            if not self._engine.has_work:
                return
            for item in self._engine.step():
                for event in _read(reader, item.event):
                    yield event
        raise AssertionError("still at work")

    def close(self) -> None:
        """End what it started."""
        self._pipeline.close()
        self._engine.close()


def _read(reader: AnswerReader | None, event: Event) -> Sequence[Event]:
    return [event] if reader is None else reader.read(event)
