"""Models, the routes without /v1, and methods that no route has."""

from __future__ import annotations

import json

import pytest
from django.test import AsyncClient

from inference import api
from inference.queues.contract import EngineStatus
from llamaweb.lib.errors import UnavailableError
from tests.edge.events import answer
from tests.edge.wire import CHAT, HELLO, Wire
from tests.fakes.inference_api import FakeInference, scripted

TINY = {
    "id": "tiny",
    "aliases": ["default"],
    "tags": [],
    "object": "model",
    "created": 1_700_000_000,
    "owned_by": "llamaweb",
    "capabilities": ["completion"],
    "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
    "source": "preset",
    "can_remove": False,
    "status": {"value": "loaded"},
    "meta": {
        "vocab_type": None,
        "n_vocab": None,
        "n_ctx": 8192,
        "n_ctx_train": None,
        "n_embd": None,
        "n_params": None,
        "size": None,
        "ftype": None,
    },
}


@pytest.mark.parametrize("prefix", ["/v1", ""])
async def test_list_and_one(fake: FakeInference, prefix: str) -> None:
    client = AsyncClient()
    listed = await client.get(f"{prefix}/models")
    assert (listed.status_code, listed.json()["object"]) == (200, "list")
    assert listed.json()["data"] == [TINY]
    assert [model["name"] for model in listed.json()["models"]] == ["tiny"]
    one = await client.get(f"{prefix}/models/tiny")
    assert (one.status_code, one.json()) == (200, TINY)
    absent = await client.get(f"{prefix}/models/a/b")
    assert (absent.status_code, absent.json()["error"]["type"]) == (404, "not_found_error")


async def test_without_an_engine_the_context_is_unknown(
    fake: FakeInference, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.max_context = 0
    one = (await AsyncClient().get("/v1/models/tiny")).json()
    assert (one["status"], one["meta"]) == ({"value": "loading"}, None)

    async def away(model: str) -> tuple[EngineStatus, ...]:
        raise UnavailableError("Redis can't be reached")

    monkeypatch.setattr(api, "engine_list", away)
    (one,) = (await AsyncClient().get("/v1/models")).json()["data"]
    assert (one["status"], one["meta"]) == ({"value": "unloaded"}, None)


async def test_chat_without_v1(fake: FakeInference, wire: Wire) -> None:
    fake.script = scripted(*answer("Hi"))
    body = json.dumps({"messages": HELLO}).encode()
    long, short = [await wire.raw(path, body) for path in (CHAT, CHAT.removeprefix("/v1"))]
    assert short.status_code == long.status_code == 200
    assert short.json()["choices"] == long.json()["choices"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, "POST"),
        ("OPTIONS", CHAT, "POST"),
        ("PUT", "/v1/models/load", "POST"),
        ("PUT", "/chat/completions", "POST"),
    ],
)
async def test_another_method_is_refused_in_json(
    fake: FakeInference, method: str, path: str, allowed: str
) -> None:
    response = await AsyncClient().generic(method, path)
    assert (response.status_code, response["Allow"]) == (405, allowed)
    error = response.json()["error"]
    assert (error["code"], error["type"]) == (405, "invalid_request_error")
    assert allowed in error["message"]


async def test_keys_are_asked_for_without_v1_too(wire: Wire) -> None:
    for path in ("/models", "/models/x", "/chat/completions"):
        method = "POST" if path.endswith("completions") else "GET"
        response = await AsyncClient().generic(method, path, b"{}")
        assert response.status_code == 401
        assert response.json()["error"]["type"] == "authentication_error"
