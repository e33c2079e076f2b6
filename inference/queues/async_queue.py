"""The callers' side of the queue on Redis as coroutines, for the web."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

import redis.asyncio
from redis.exceptions import NoScriptError

from inference.protocol.events import CancelledBy
from inference.protocol.requests import EngineRequest
from inference.queues.answers import texts
from inference.queues.commands import Command, Commands, no_offset
from inference.queues.connect import reachable
from inference.queues.contract import (
    Cursor,
    EngineStatus,
    Load,
    Position,
    QueueConfig,
    Read,
    ReasoningEnd,
    Status,
)
from inference.queues.keys import models_key
from inference.queues.redis_queue import DEFAULT_CONFIG
from inference.queues.scripts import script

T = TypeVar("T")


class AsyncRedisQueue:
    """The callers' side of `Queue` as coroutines; same promises, same errors.

    `client` comes from `connect.async_client`.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis,
        prefix: str,
        config: QueueConfig = DEFAULT_CONFIG,
        *,
        offset_s: Callable[[], float] = no_offset,
    ) -> None:
        self._client = client
        self._commands = Commands(prefix, config, offset_s)
        self.config = config
        self.prefix = prefix

    async def _run(self, command: Command[T]) -> T:
        code = script(command.script)
        args = (*command.keys, *map(str, command.args))
        async with reachable():
            try:
                reply = await cast(
                    "Awaitable[Any]", self._client.evalsha(code.sha, len(command.keys), *args)
                )
            except NoScriptError:
                reply = await cast(
                    "Awaitable[Any]", self._client.eval(code.text, len(command.keys), *args)
                )
        return command.parse(reply)

    async def ping(self) -> None:
        """Return when the server answers; else UnavailableError."""
        async with reachable():
            await cast("Awaitable[Any]", self._client.ping())

    async def submit(self, request: EngineRequest, *, reader_id: str | None = None) -> Position:
        """See `Queue.submit`."""
        async with reachable():
            await cast("Awaitable[Any]", self._client.sadd(models_key(self.prefix), request.model))
        return await self._run(self._commands.submit(request, reader_id))

    async def cancel(self, model: str, generation_id: str, by: CancelledBy) -> bool:
        """See `Queue.cancel`."""
        return await self._run(self._commands.cancel(model, generation_id, by))

    async def end_reasoning(self, model: str, reply_id: str, owner_key: str) -> ReasoningEnd:
        """See `Queue.end_reasoning`."""
        return await self._run(self._commands.end_reasoning(model, reply_id, owner_key))

    async def status(self, model: str, generation_id: str) -> Status | None:
        """See `Queue.status`."""
        return await self._run(self._commands.status(model, generation_id))

    async def places(
        self, model: str, generation_ids: Sequence[str]
    ) -> tuple[Position | None, ...]:
        """Place of each generation in the queue; None if it doesn't wait."""
        return await self._run(self._commands.places(model, generation_ids))

    async def read(
        self, model: str, generation_id: str, cursor: Cursor, *, limit: int = 512
    ) -> Read:
        """See `Queue.read`."""
        return await self._run(self._commands.read(model, generation_id, cursor, limit))

    async def reader_renew(
        self, model: str, reader_id: str, generation_ids: Sequence[str]
    ) -> tuple[str, ...]:
        """See `Queue.reader_renew`."""
        return await self._run(self._commands.reader_renew(model, generation_ids))

    async def load(self, model: str) -> Load:
        """See `Queue.load`."""
        return await self._run(self._commands.load(model))

    async def engines(self, model: str) -> tuple[EngineStatus, ...]:
        """See `Queue.engines`."""
        return await self._run(self._commands.engines(model))

    async def models(self) -> tuple[str, ...]:
        """See `Queue.models`."""
        async with reachable():
            found = await cast("Awaitable[Any]", self._client.smembers(models_key(self.prefix)))
        return tuple(sorted(texts(found)))
