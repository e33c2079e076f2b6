"""Requests that real clients made are asked again: each is understood, and its answer has what its
client needs."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import ollama
import pytest
from django.test import AsyncClient

from inference.protocol.events import CallRef, Delta, Event
from inference.protocol.requests import ChatPrompt, EngineRequest, GenerateRequest
from inference.queues.contract import Position, Read
from tests.edge.clients.reading import READERS, Said, vectors
from tests.edge.clients.recorded import Recorded, recorded
from tests.edge.events import STARTED, USAGE, delta, finished
from tests.fakes.inference_api import FakeInference
from tests.fakes.mock_model import HERMES, MockModel

REQUESTS = tuple(recorded())
ANSWERED = [asked for asked in REQUESTS if asked.route in READERS]
THOUGHTS, TEXT = "Let me look.", "Well."
TOOLS = {"tools whole", "tools stream", "results"}
CHAT = {"chat whole", "chat stream", "form"}
# What of each client is recorded: enough that no route is lost unseen, nor a way of asking on all
# of them.
CHATS, TEXTS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
MESSAGES, OLLAMA, SHOW = "/v1/messages", "/api/chat", "/api/show"
VECTORS = {"/v1/embeddings", "/api/embed"}
TRAITS = {
    "langchain": CHAT
    | TOOLS
    | VECTORS
    | {CHATS, RESPONSES, MESSAGES, OLLAMA}
    | {"responses whole", "responses stream", "thoughts", "vectors"},
    "llamaindex": CHAT
    | TOOLS
    | {CHATS, TEXTS, "/v1/embeddings", "text whole", "text stream", "vectors"},
    "litellm": CHAT
    | TOOLS
    | VECTORS
    | {CHATS, TEXTS, RESPONSES, MESSAGES, OLLAMA, SHOW, "/rerank"}
    | {"responses whole", "thoughts", "text whole", "vectors", "scores"},
    "llm": CHAT | TOOLS | {CHATS},
    "aider": {CHATS, "chat whole", "chat stream"},
    "claude_code": {MESSAGES, "chat stream", "tools stream", "results"},
    "continue": {CHATS, "chat stream", "tools stream", "results"},
    "codex": {RESPONSES, "responses stream", "tools stream", "results"},
}
CONTEXT_LEN = 65_536  # a byte is a token of the mock's
FEW_TOKENS = 16
RECORDED_MODEL, MODEL = '"mock"', '"tiny"'  # what the default model is called
ERROR_RE = re.compile(rb'"error": ?[{"]')

every = pytest.mark.parametrize("asked", REQUESTS, ids=str)
answered = pytest.mark.parametrize("asked", ANSWERED, ids=str)


@pytest.fixture(scope="module")
def echo() -> Iterator[MockModel]:
    """Says the last message again; its template has thoughts and tools."""
    model = MockModel(template=HERMES, context_len=CONTEXT_LEN)
    yield model
    model.close()


async def ask(asked: Recorded, **more: Any) -> tuple[int, bytes]:
    """Status and body, of a request with `more` fields."""
    client = AsyncClient(raise_request_exception=False)
    headers = {n: text for n, text in asked.headers.items() if n != "content-type"}
    given: dict[str, Any] = {"headers": headers}
    if asked.body is not None:
        data = json.dumps({**asked.fields, **more}).replace(RECORDED_MODEL, MODEL)
        given |= {"data": data, "content_type": asked.headers.get("content-type", "")}
    response: Any = await client.generic(asked.method, asked.path, **given)
    if response.streaming:
        return response.status_code, b"".join([part async for part in response.streaming_content])
    return response.status_code, response.content


def arguments_of(tool: dict[str, Any]) -> dict[str, Any]:
    """What a call of the tool says; one that takes free text as a function gets some."""
    names = list((tool.get("parameters") or {}).get("properties") or {})
    return {names[0]: "Zürich 😺"} if names else {}


def offered(request: GenerateRequest) -> dict[str, Any] | None:
    """The first tool that the model sees."""
    assert isinstance(request.prompt, ChatPrompt)
    tools = json.loads(request.prompt.tools_json or "[]")
    return tools[0]["function"] if tools else None


def told(request: GenerateRequest) -> Iterator[Event]:
    """Thoughts, text, and a call in two pieces where there is a tool; of a text just text."""
    yield STARTED
    tool = None
    if isinstance(request.prompt, ChatPrompt):
        tool = offered(request)
        yield Delta(THOUGHTS, (1,), kind="reasoning")
    yield delta(TEXT)
    if tool is not None:
        text = json.dumps(arguments_of(tool), ensure_ascii=False)
        yield Delta("", (1,), kind="tool_call", call=CallRef(0, "call_1", tool["name"]))
        for piece in (text[:1], text[1:]):
            yield Delta(piece, (1,), kind="tool_call", call=CallRef(0))
        yield Delta("", (), kind="tool_call", call=CallRef(0, end="complete"))
    yield finished("stop" if tool is None else "tool_calls")


@pytest.fixture
def telling(fake: FakeInference, echo: MockModel) -> FakeInference:
    """Answers are told; vectors and counts are the mock's."""

    async def script(request: EngineRequest) -> AsyncIterator[Event | Position | Read]:
        if not isinstance(request, GenerateRequest):
            async for item in echo.script(request):
                yield item
            return
        for event in told(request):
            yield event

    fake.script = script
    return fake


def test_all_of_each_client_is_there() -> None:
    for client, traits in TRAITS.items():
        mine = [asked.traits for asked in REQUESTS if asked.client == client]
        assert traits <= set().union(*mine), client


@answered
async def test_thoughts_text_calls_and_usage_are_read(
    telling: FakeInference, asked: Recorded
) -> None:
    """And thoughts of before reach the model."""
    status, raw = await ask(asked)
    assert status == 200, raw
    (request,) = telling.submitted
    said = READERS[asked.route](asked, raw)
    wanted = Said(text=TEXT)
    if isinstance(request.prompt, ChatPrompt):
        assert [m.reasoning for m in request.prompt.messages if m.reasoning] == asked.thoughts
        wanted.thoughts = THOUGHTS
        if tool := offered(request):
            wanted.calls = [(tool["name"], arguments_of(tool))]
    used = (USAGE.prompt_tokens, USAGE.completion_tokens)
    if asked.route != "/v1/chat/completions" or not asked.is_stream or _wants_usage(asked):
        wanted.usage = (*used, sum(used))
    assert said == wanted


@answered
async def test_what_is_new_to_the_server_is_ignored(
    telling: FakeInference, asked: Recorded
) -> None:
    new = {"x_new": {"a": [1]}}
    more: dict[str, Any] = dict(new)
    if isinstance(asked.fields.get("messages"), list):
        more["messages"] = [{**message, **new} for message in asked.fields["messages"]]
    if asked.fields.get("tools"):
        more["tools"] = [{**tool, **new} for tool in asked.fields["tools"]]
    for fields in ({}, more):
        status, raw = await ask(asked, **fields)
        assert status == 200, raw
    first, second = telling.submitted
    assert first.prompt == second.prompt
    assert first.sampling == second.sampling


@every
async def test_the_engine_takes_it(fake: FakeInference, echo: MockModel, asked: Recorded) -> None:
    """Template, schema, tools and all; of a few tokens of the answer."""

    async def script(request: EngineRequest) -> AsyncIterator[Event | Position | Read]:
        if isinstance(request, GenerateRequest):
            limits = replace(request.limits, max_tokens=FEW_TOKENS)
            request = replace(request, limits=limits)
        async for item in echo.script(request):
            yield item

    fake.script = script
    status, raw = await ask(asked)
    assert status == 200, raw
    assert not ERROR_RE.search(raw)
    if "vectors" in asked.traits:
        assert len({len(vector) for vector in vectors(asked, raw)}) == 1
    if "scores" in asked.traits:
        assert len(json.loads(raw)["results"]) == len(asked.fields["documents"])
    if asked.route == SHOW:
        ollama.ShowResponse.model_validate_json(raw)


def _wants_usage(asked: Recorded) -> bool:
    return bool((asked.fields.get("stream_options") or {}).get("include_usage"))
