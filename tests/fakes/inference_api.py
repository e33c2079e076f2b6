"""An in-process stand-in for `inference.api`: each generation follows a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field

import pytest

from inference import api
from inference.api import EngineSummary, ModelInfo
from inference.protocol.events import CancelledBy, Entry, Event, is_terminal
from inference.protocol.requests import GenerateRequest
from inference.queues.contract import Cursor, EngineStatus, Position, Read, ReasoningEnd
from inference.registry.chat_defaults import ChatDefaults
from inference.registry.model_cards import ModelCard
from llamaweb.lib.errors import LlamawebError, NotFoundError

Script = Callable[[GenerateRequest], AsyncIterator[Event | Position | Read]]
WAIT_S = 10.0


@dataclass
class FakeInference:
    """`script` makes the events of a request; `refusal` is raised at submit from the
    `refuse_from`th request on. Everything that was asked is kept."""

    script: Script
    refusal: LlamawebError | None = None
    refuse_from: int = 0
    submitted: list[GenerateRequest] = field(default_factory=list)
    cancelled: list[tuple[str, CancelledBy]] = field(default_factory=list)
    reasoning_ended: list[tuple[str, str]] = field(default_factory=list)
    reading: set[str] = field(default_factory=set)
    num_slots: int = 4
    num_adapters: int = 0
    max_context: int = 8192
    chat: ChatDefaults = field(default_factory=ChatDefaults)

    async def generation_submit(self, request: GenerateRequest) -> Position:
        if self.refusal is not None and len(self.submitted) >= self.refuse_from:
            raise self.refusal
        self.submitted.append(request)
        return Position(0, 1)

    async def generation_events(
        self, model: str, generation_id: str
    ) -> AsyncIterator[Read | Position]:
        request = next(r for r in self.submitted if r.generation_id == generation_id)
        self.reading.add(generation_id)
        seq = -1
        try:
            async for item in self.script(request):
                if isinstance(item, Position | Read):
                    yield item
                    continue
                seq += 1
                yield Read(Cursor(1, seq), (Entry(seq, item),))
                if is_terminal(item):
                    return
        finally:
            self.reading.discard(generation_id)

    async def generation_cancel(
        self, model: str, generation_id: str, by: CancelledBy = "user"
    ) -> bool:
        self.cancelled.append((generation_id, by))
        return True

    async def reasoning_end(
        self, reply_id: str, owner_key: str, only: Collection[str] = ()
    ) -> ReasoningEnd:
        self.reasoning_ended.append((reply_id, owner_key))
        theirs = [r for r in self.submitted if r.owner_key == owner_key]
        mine = [r for r in theirs if not only or r.model in only]
        found = next((r for r in mine if r.reply.reply_id == reply_id), None)
        if found is None:
            return "unknown"
        return "ok" if found.answer.reasoning_control else "not_enabled"

    async def model_resolve(self, name: str | None) -> ModelInfo:
        if name not in (None, "", "default", "tiny"):
            raise NotFoundError(f"the model {name!r} does not exist")
        return ModelInfo(
            "tiny",
            1_700_000_000,
            self.num_slots,
            "mock",
            num_adapters=self.num_adapters,
            chat=self.chat,
        )

    async def model_resolve_for(
        self, user_id: int, name: str | None, only: Collection[str] = ()
    ) -> ModelInfo:
        return await self.model_resolve(name)

    async def model_list(self) -> list[ModelInfo]:
        return [await self.model_resolve(None)]

    async def model_list_for(self, user_id: int, only: Collection[str] = ()) -> list[ModelInfo]:
        return await self.model_list()

    async def model_cards_for(self, user_id: int, only: Collection[str] = ()) -> list[ModelCard]:
        return [await self.model_card_for(user_id, None)]

    async def model_card_for(
        self, user_id: int, name: str | None, only: Collection[str] = ()
    ) -> ModelCard:
        return ModelCard(await self.model_resolve(name), is_default=True)

    async def chat_template_for(self, user_id: int, name: str, only: Collection[str] = ()) -> str:
        return ""

    async def engine_list(self, model: str) -> tuple[EngineStatus, ...]:
        info = {"max_context": self.max_context}
        state = "ready" if self.max_context else "loading"
        return (EngineStatus("e1", state, 1, 0, 0.1, False, info),)

    async def engine_status(self, name: str | None = None) -> EngineSummary:
        info = await self.model_resolve(name)
        if not self.max_context:
            return EngineSummary(False, "loading", info.name)
        return EngineSummary(True, "", info.name, self.max_context)

    async def wait_cancelled(self, count: int = 1) -> None:
        """Until so many generations were cancelled and nothing is read any more."""
        async with asyncio.timeout(WAIT_S):
            while len(self.cancelled) < count or self.reading:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put this in the facade's place."""
        for name in (
            "generation_submit",
            "generation_events",
            "generation_cancel",
            "reasoning_end",
            "model_resolve",
            "model_resolve_for",
            "model_list",
            "model_list_for",
            "model_cards_for",
            "model_card_for",
            "chat_template_for",
            "engine_list",
            "engine_status",
        ):
            monkeypatch.setattr(api, name, getattr(self, name))


def scripted(*events: Event | Position | Read) -> Script:
    """The same events for every request."""

    async def script(_request: GenerateRequest) -> AsyncIterator[Event | Position | Read]:
        for event in events:
            await asyncio.sleep(0)
            yield event

    return script
