"""Vertex AI's predictions: each instance is answered as its own route would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from django.test import AsyncClient, Client

from inference.edge.vertex.instances import ALIASES
from inference.edge.vertex.routes import MAX_PARALLEL
from inference.edge.vertex.schemas import MAX_INSTANCES
from inference.protocol.events import Event
from inference.protocol.requests import GenerateRequest, TextPrompt
from inference.queues.contract import Position, Read
from llamaweb.accounts.models import Scope, User
from llamaweb.api import vertex_urls
from tests.edge.events import STARTED, answer
from tests.edge.test_disconnect import AsgiClient
from tests.edge.vertex.urls import ROUTES
from tests.edge.wire import HELLO, Wire
from tests.factories import make_key
from tests.fakes.inference_api import FakeInference
from tests.until import until

Says = Callable[..., FakeInference]
PREDICT, HEALTH = ROUTES
WAIT_S = 10.0
CHAT = {"@requestFormat": "chatCompletions", "messages": HELLO}

pytestmark = pytest.mark.urls("tests.edge.vertex.urls")


@pytest.fixture(autouse=True)
def _is_there(settings: Any) -> None:
    settings.VERTEX_ROUTES = ROUTES


def text(prompt: str) -> dict[str, Any]:
    """An instance that llama-server's own route answers."""
    return {"@requestFormat": "completion", "prompt": prompt}


async def predict(wire: Wire, *instances: Any) -> list[Any]:
    """The predictions."""
    response = await wire.raw(PREDICT, json.dumps({"instances": instances}).encode())
    assert response.status_code == 200, response.content
    predictions: list[Any] = json.loads(response.content)["predictions"]
    return predictions


async def test_each_is_answered_as_its_route_would(says: Says, wire: Wire) -> None:
    fake = says(*answer("Hi"))
    message = {"messages": HELLO, "max_tokens": 5}
    chat, anthropic, native, made = await predict(
        wire,
        {**CHAT, "stream": True},
        {"@requestFormat": "/v1/messages", **message},
        text("a"),
        {"@requestFormat": "responses", "input": "Hello", "store": False, "stream": True},
    )
    assert chat["choices"][0]["message"]["content"] == "Hi"
    assert anthropic["content"] == [{"type": "text", "text": "Hi"}]
    assert (native["content"], native["stop"]) == ("Hi", True)
    assert made["output"][0]["content"][0]["text"] == "Hi"
    assert len(fake.submitted) == 4
    assert await predict(wire) == []


def test_formats_are_routes_as_one_word() -> None:
    assert ALIASES["chatCompletions"] == "/v1/chat/completions"
    assert ALIASES["completions"] == "/v1/completions"
    assert ALIASES["messagesCountTokens"] == "/v1/messages/count_tokens"
    assert ALIASES["applyTemplate"] == "/apply-template"


async def test_one_that_fails_does_so_in_its_place(says: Says, wire: Wire) -> None:
    says(*answer("Hi"))
    shown = await predict(
        wire,
        {"@requestFormat": "messages", "messages": 5, "max_tokens": 5},
        CHAT,
        "hello",
        {"messages": HELLO},
        {**CHAT, "@requestFormat": "/v1/models"},
        {**CHAT, "@requestFormat": PREDICT},
        {**CHAT, "@requestFormat": ["chatCompletions"]},
        {**CHAT, "model": "absent"},
    )
    assert shown[0]["error"]["type"] == "invalid_request_error"
    assert shown[0]["error"]["message"].startswith("messages")
    assert shown[1]["choices"][0]["message"]["content"] == "Hi"
    assert shown[2]["error"]["param"] == "instances[2]"
    for index in (3, 4, 5, 6):
        error = shown[index]["error"]
        assert (error["code"], error["param"]) == (400, f"instances[{index}].@requestFormat")
        assert "chatCompletions" in error["message"]
    assert shown[7]["error"]["code"] == 404
    assert [list(each) for each in shown if "error" in each] == [["error"]] * 7


@pytest.mark.parametrize(
    "body", [{}, {"instances": 5}, {"instances": [CHAT] * (MAX_INSTANCES + 1)}]
)
async def test_a_body_that_is_none(says: Says, wire: Wire, body: dict[str, Any]) -> None:
    fake = says(*answer("Hi"))
    response = await wire.raw(PREDICT, json.dumps(body).encode())
    error = json.loads(response.content)["error"]
    assert (response.status_code, error["param"]) == (400, "instances")
    assert fake.submitted == []
    assert (await wire.raw(PREDICT, b"[")).status_code == 400


async def test_many_run_side_by_side_and_come_in_order(fake: FakeInference, wire: Wire) -> None:
    most, are_there = 0, asyncio.Event()

    async def script(request: GenerateRequest) -> AsyncIterator[Event | Position | Read]:
        """Each says its prompt, none before as many as may be are there."""
        nonlocal most
        most = max(most, len(fake.reading))
        if most >= MAX_PARALLEL:
            are_there.set()
        async with asyncio.timeout(WAIT_S):
            await are_there.wait()
        assert isinstance(request.prompt, TextPrompt)
        for event in answer(request.prompt.text):
            yield event

    fake.script = script
    prompts = [str(number) for number in range(MAX_INSTANCES)]
    shown = await predict(wire, *map(text, prompts))
    assert [each["content"] for each in shown] == prompts
    assert most == MAX_PARALLEL


async def test_who_takes_too_long_ends(fake: FakeInference, wire: Wire, settings: Any) -> None:
    fake.script = _never_ends(fake)
    settings.REQUEST_TIMEOUT_S = 0.2
    shown = await predict(wire, text("a"), text("b"))
    assert [each["error"]["code"] for each in shown] == [504, 504]
    await fake.wait_cancelled(2)


async def test_a_client_that_leaves_ends_them_all(fake: FakeInference) -> None:
    fake.script = _never_ends(fake)
    client = AsgiClient(PREDICT, instances=[text("a"), text("b")])
    await until(lambda: len(fake.reading) >= 2, WAIT_S)
    await client.leave()
    await fake.wait_cancelled(2)


def _never_ends(fake: FakeInference) -> Any:
    async def script(_request: GenerateRequest) -> AsyncIterator[Event | Position | Read]:
        yield STARTED
        await asyncio.sleep(WAIT_S)

    return script


async def test_a_stream_s_name_means_nothing(says: Says) -> None:
    fake = says(*answer("Hi"))
    response = await AsyncClient().post(
        PREDICT,
        json.dumps({"instances": [CHAT]}),
        content_type="application/json",
        headers={"X-Conversation-Id": "mine"},
    )
    assert response.status_code == 200
    assert fake.submitted[0].reply.stream_id == ""


@pytest.mark.django_db
def test_a_key_is_needed_and_each_route_asks_for_its_scope(alice: User) -> None:
    def post(**headers: str) -> Any:
        body = {"instances": [CHAT]}
        return Client(headers=headers).post(PREDICT, body, content_type="application/json")

    reads, embeds = (make_key(alice, scopes=[s]) for s in (Scope.MODELS_READ, Scope.EMBEDDINGS))
    assert post().status_code == 401
    assert post(Authorization=f"Bearer {reads}").status_code == 403
    response = post(Authorization=f"Bearer {embeds}")
    assert response.status_code == 200
    (shown,) = response.json()["predictions"]
    assert (shown["error"]["code"], shown["error"]["type"]) == (403, "permission_error")


async def test_health_needs_no_key(fake: FakeInference) -> None:
    response = await AsyncClient().get(HEALTH)
    assert (response.status_code, json.loads(response.content)) == (200, {"status": "ok"})


async def test_another_method(wire: Wire) -> None:
    response = await wire.client.get(PREDICT)
    assert (response.status_code, response["Allow"]) == (405, "POST")
    assert json.loads(response.content)["error"]["code"] == 405


def test_elsewhere_there_are_no_such_addresses() -> None:
    assert vertex_urls(()) == []
