"""Calls and forms of the starter model through the chat route and OpenAI's client: what is streamed
is what comes whole."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx2 as httpx
import jsonschema
import pytest
from django.test import AsyncClient
from openai import AsyncOpenAI

from tests.edge.conftest import as_alice, fake  # noqa: F401
from tests.fakes.inference_api import FakeInference
from tests.model.test_api_families import bench, served  # noqa: F401

pytestmark = pytest.mark.model

BOOK = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Rome", "Zürich 😺"]},
        "nights": {"type": "integer", "minimum": 1, "maximum": 30},
        "late": {"type": "boolean"},
    },
    "required": ["city", "nights"],
    "additionalProperties": False,
}
SCHEMAS = {"book": BOOK, "clock": {"type": "object", "maxProperties": 0}}
TOOLS = [
    {"type": "function", "function": {"name": "clock", "description": "What time it is"}},
    {"type": "function", "function": {"name": "book", "parameters": BOOK, "strict": True}},
]
FORM = {"type": "json_schema", "json_schema": {"name": "stay", "schema": BOOK, "strict": True}}
NO_CALL: tuple[tuple[str, str], ...] = ()


class Said(NamedTuple):
    """An answer, however it came."""

    content: str
    calls: tuple[tuple[str, str], ...]
    finish: str
    completion_tokens: int


class InProcess(httpx.AsyncBaseTransport):
    """Asks the routes of this process."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response: Any = await AsyncClient().post(
            request.url.path, data=await request.aread(), content_type="application/json"
        )
        if response.streaming:
            content = b"".join([part async for part in response.streaming_content])
        else:
            content = response.content
        return httpx.Response(response.status_code, headers=dict(response.items()), content=content)


@pytest.fixture
async def openai(served: FakeInference) -> AsyncIterator[AsyncOpenAI]:  # noqa: F811
    http = httpx.AsyncClient(transport=InProcess())
    async with AsyncOpenAI(base_url="http://in/v1", api_key="k", http_client=http) as client:
        yield client


def asked(text: str, fields: dict[str, Any]) -> dict[str, Any]:
    chat = [{"role": "user", "content": text}]
    return {"model": "default", "messages": chat, "temperature": 0, "max_tokens": 160, **fields}


async def whole(client: AsyncOpenAI, body: dict[str, Any]) -> Said:
    told: Any = await client.chat.completions.create(**body)
    (choice,) = told.choices
    calls = [(c.function.name, c.function.arguments) for c in choice.message.tool_calls or ()]
    content = choice.message.content or ""
    return Said(content, tuple(calls), choice.finish_reason, told.usage.completion_tokens)


async def streamed(client: AsyncOpenAI, body: dict[str, Any]) -> Said:
    stream: Any = await client.chat.completions.create(
        **body, stream=True, stream_options={"include_usage": True}
    )
    content, finish, usage = "", "", None
    calls: list[tuple[str, str]] = []
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            content += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for delta in choice.delta.tool_calls or ():
                if delta.id:
                    calls.append((delta.function.name, ""))
                name, arguments = calls[delta.index]
                calls[delta.index] = name, arguments + (delta.function.arguments or "")
    assert usage is not None
    return Said(content, tuple(calls), finish, usage.completion_tokens)


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("choice", ["required", named("book"), named("clock")])
async def test_forced_calls(openai: AsyncOpenAI, choice: Any, parallel: bool) -> None:
    fields = {"tools": TOOLS, "tool_choice": choice, "parallel_tool_calls": parallel}
    body = asked("Hello, how are you today?", fields)
    said = await whole(openai, body)
    assert await streamed(openai, body) == said
    assert said.content == ""
    assert (len(said.calls), said.finish) == (1, "tool_calls") or parallel
    # Several go on up to the limit, where the last one is cut.
    calls = said.calls[:-1] if said.finish == "length" else said.calls
    for name, arguments in calls:
        assert choice == "required" or name == choice["function"]["name"]
        jsonschema.validate(json.loads(arguments), SCHEMAS[name])
    assert calls


@pytest.mark.parametrize("form", [FORM, {"type": "json_object"}])
async def test_forms(openai: AsyncOpenAI, form: Any) -> None:
    body = asked("Book two nights in Rome.", {"response_format": form})
    said = await whole(openai, body)
    assert await streamed(openai, body) == said
    assert said.calls == NO_CALL
    if form is FORM:
        assert said.finish == "stop"
        jsonschema.validate(json.loads(said.content), BOOK)
    else:
        assert said.content.startswith("{")


@pytest.mark.parametrize("choice", ["auto", "none"])
async def test_what_the_model_likes(openai: AsyncOpenAI, choice: str) -> None:
    body = asked("What time is it?", {"tools": TOOLS, "tool_choice": choice})
    said = await whole(openai, body)
    assert await streamed(openai, body) == said
    assert said.content or said.calls
    assert choice == "auto" or said.calls == NO_CALL
