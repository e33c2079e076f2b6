"""The official clients try again what may go better, as late as they are told, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anthropic
import anyio
import httpx2 as httpx
import openai
import pytest
import pytest_asyncio
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from inference.protocol.events import Event, Failed
from llamaweb.lib.errors import BusyError
from tests.edge.events import answer
from tests.edge.test_disconnect import application
from tests.edge.wire import HELLO
from tests.fakes.inference_api import FakeInference

URL = "http://testserver"
OWNER_S, SERVER_S = 7.0, 9.0
Says: TypeAlias = Callable[..., FakeInference]


@dataclass
class Watched:
    """The routes in this process behind a client's HTTP. `pauses`: what the client wanted to wait,
    `meanwhile`: what happens then."""

    http: httpx.AsyncClient
    statuses: list[int] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    async def pause(self, seconds: float) -> None:
        """In place of sleep."""
        self.pauses.append(seconds)
        self.meanwhile()


@pytest_asyncio.fixture
async def watched(fake: FakeInference, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    """What both clients are built on."""
    transport = httpx.ASGITransport(application())
    async with httpx.AsyncClient(transport=transport) as http:
        made = Watched(http)

        async def note(response: httpx.Response) -> None:
            made.statuses.append(response.status_code)

        http.event_hooks = {"response": [note]}
        monkeypatch.setattr(anyio, "sleep", made.pause)
        yield made


async def by_openai(http: Any) -> str:
    """What a chat says, with one retry."""
    client = AsyncOpenAI(base_url=f"{URL}/v1", api_key="k", max_retries=1, http_client=http)
    messages: Any = HELLO
    made = await client.chat.completions.create(model="default", messages=messages)
    return made.choices[0].message.content or ""


async def by_anthropic(http: Any) -> str:
    """The same of a message."""
    client = AsyncAnthropic(base_url=URL, api_key="k", max_retries=1, http_client=http)
    messages: Any = HELLO
    made = await client.messages.create(model="default", max_tokens=9, messages=messages)
    return "".join(block.text for block in made.content if block.type == "text")


by_each = pytest.mark.parametrize("ask", [by_openai, by_anthropic])
Ask: TypeAlias = Callable[[Any], Awaitable[str]]


@by_each
@pytest.mark.parametrize(
    ("reason", "status", "wait_s"),
    [("owner_queue_full", 429, OWNER_S), ("queue_full", 503, SERVER_S)],
)
async def test_who_was_told_to_wait_does_and_is_answered(
    says: Says, watched: Watched, ask: Ask, reason: str, status: int, wait_s: float
) -> None:
    fake = says(*answer("Hi"))
    fake.refusal = BusyError("all is full", reason=reason, retry_after_s=wait_s)

    def has_room() -> None:
        fake.refusal = None

    watched.meanwhile = has_room
    assert await ask(watched.http) == "Hi"
    assert watched.statuses == [status, 200]
    assert watched.pauses == [wait_s]


@by_each
@pytest.mark.parametrize(
    ("end", "statuses"),
    [
        (Failed("not_supported", "no"), [501]),
        (Failed("deadline_exceeded", "late", retryable=True), [504]),
        (Failed("engine_failed", "it broke"), [500, 500]),
        (Failed("invalid_request", "what?"), [400]),
    ],
)
async def test_what_would_not_go_better_is_asked_once(
    says: Says, watched: Watched, ask: Ask, end: Event, statuses: list[int]
) -> None:
    """The clients would ask again whatever is 500 and more."""
    says(end)
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as caught:
        await ask(watched.http)
    error: Any = caught.value
    assert error.status_code == statuses[-1]
    assert watched.statuses == statuses
    assert len(watched.pauses) == len(statuses) - 1
