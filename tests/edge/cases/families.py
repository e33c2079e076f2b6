"""All API families that write, and how they are asked in this process."""

from __future__ import annotations

import functools
import json
from typing import Any, Final

from tests.edge.cases.family import Family
from tests.edge.cases.openai_families import ChatFamily, NativeFamily, TextFamily
from tests.edge.cases.other_families import (
    GenerateFamily,
    MessagesFamily,
    OllamaFamily,
    ResponsesFamily,
)
from tests.edge.cases.said import Ask, Refusal, Reply, Stream
from tests.edge.responses.events import read
from tests.edge.wire import Wire

FAMILIES: Final[tuple[Family, ...]] = (
    ChatFamily(),
    TextFamily(),
    ResponsesFamily(),
    MessagesFamily(),
    OllamaFamily(),
    GenerateFamily(),
    NativeFamily(),
)
BY_NAME: Final = {family.name: family for family in FAMILIES}


async def post(path: str, data: bytes) -> Any:
    """The response itself."""
    return await _wire().raw(path, data)


@functools.cache  # its first request costs more than all that follow
def _wire() -> Wire:
    return Wire()


async def send(path: str, body: Any) -> tuple[int, Any]:
    """Status and parsed body, of an answer that is no stream."""
    response = await post(path, json.dumps(body).encode())
    assert not response.streaming, response
    return response.status_code, json.loads(response.content)


async def stream(family: Family, body: Any, path: str = "") -> Stream:
    """A 200 that is a stream, whatever comes in it; `path`: where it isn't the family's own."""
    response = await post(path or family.path, json.dumps({**body, "stream": True}).encode())
    assert response.status_code == 200, response.content
    assert response["Content-Type"].startswith(family.content_type)
    return family.read(await read(response))


async def whole(family: Family, body: Any) -> Reply:
    """What a 200 says."""
    status, told = await send(family.path, {**body, "stream": False})
    assert status == 200, told
    return family.reply(told)


async def both(family: Family, ask: Ask, **more: Any) -> Reply:
    """The reply, which is the same streamed and whole; `more`: of the family's own fields."""
    streamed = (await stream(family, {**family.body(ask, stream=True), **more})).reply
    told = await whole(family, {**family.body(ask), **more})
    assert streamed == told
    return told


async def refused(family: Family, body: Any, status: int = 400) -> Refusal:
    """What is said to a request, the same streamed and whole."""
    got, told = await send(family.path, {**body, "stream": False})
    assert (got, await send(family.path, {**body, "stream": True})) == (status, (status, told)), (
        told
    )
    refusal = family.refusal(told)
    if status == 400:
        assert refusal.kind in ("", "invalid_request_error", "exceed_context_size_error")
    return refusal
