"""Models as Ollama lists them, and what is administered elsewhere."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import ollama as sdk
import pytest

from inference import api
from inference.edge.models import acts
from inference.edge.ollama import residency
from inference.edge.ollama.catalogue import model_entry, running_entry, sheet
from inference.protocol.events import Event, Failed, Finished, Result
from inference.protocol.requests import TokenizeRequest
from inference.protocol.results import TokenizeResult
from inference.queues.contract import SUPERVISOR_ID, EngineStatus
from inference.registry.gguf.facts import GgufFacts, Tokens, Weights
from inference.registry.gguf.layers import Layers
from inference.registry.model_cards import ModelCard
from inference.registry.selectors import ModelInfo
from llamaweb.lib.errors import ForbiddenError
from tests.edge.ollama.lines import CHAT, PATHS, Ollama
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
FACTS = GgufFacts(
    "model",
    3,
    92_000_000,
    architecture="llama",
    purpose="text",
    name="SmolLM2",
    size_label="135M",
    quantization="Q4_1",
    context_len=8192,
    embedding_len=576,
    layers=Layers(),
    tokens=Tokens("gpt2", num=49152),
    weights=Weights(num_params=134_515_008),
)
INFO = ModelInfo("smollm2", 1_700_000_000, 4, "llama", sampling={"temperature": 0.2})
CARD = ModelCard(
    INFO,
    is_default=True,
    facts=FACTS,
    size=92_000_000,
    digest="b179c9",
    modified_at=dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
)
JSON: dict[str, Any] = {"data": b"{}", "content_type": "application/json"}
HERMES = "{% if tools %}<tool_call>{% endif %}<think>{{ messages }}"
both = pytest.mark.parametrize("path", PATHS)


def engine(state: str, name: str = "e1", **info: Any) -> EngineStatus:
    return EngineStatus(name, state, 1, 0, 0.1, False, info)


def test_the_official_client_reads_a_list() -> None:
    (shown,) = sdk.ListResponse(models=[model_entry(CARD)]).models
    assert shown.model == "smollm2"
    assert shown.digest == "b179c9"
    assert shown.modified_at == CARD.modified_at
    assert shown.details is not None
    assert shown.details.family == "llama"
    assert shown.details.parameter_size == "135M"
    assert shown.details.quantization_level == "Q4_1"


def test_what_is_not_known_is_left_out() -> None:
    (shown,) = sdk.ListResponse(models=[model_entry(ModelCard(INFO, is_default=True))]).models
    assert shown.modified_at is None
    assert shown.size == 0


def test_the_official_client_reads_what_is_in_memory() -> None:
    seen = (
        engine("ready", max_context=2048),
        engine("ready", SUPERVISOR_ID, gpu_memory_need_bytes=7000),
    )
    (shown,) = sdk.ProcessResponse(models=[running_entry(CARD, seen)]).models
    assert shown.name == "smollm2"
    assert shown.context_length == 2048
    assert shown.size_vram == 7000
    assert shown.expires_at is not None
    assert shown.expires_at.year > 2500
    for state in ("loading", "off"):
        assert running_entry(CARD, (engine(state),)) is None
    assert running_entry(CARD, ()) is None


def test_the_official_client_reads_a_model() -> None:
    shown = sdk.ShowResponse(**sheet(CARD, HERMES))
    assert shown.template == HERMES
    assert shown.capabilities == ["completion", "tools", "thinking"]
    assert shown.parameters == "temperature 0.2"
    assert shown.modelinfo is not None
    assert shown.modelinfo["general.architecture"] == "llama"
    assert shown.modelinfo["llama.context_length"] == 8192
    assert shown.modelinfo["general.parameter_count"] == 134_515_008


def test_capabilities_are_what_the_template_has_a_form_for() -> None:
    assert sheet(CARD, "{{ messages }}")["capabilities"] == ["completion"]
    vectors = ModelCard(replace(INFO, task="embedding"), is_default=True)
    assert sheet(vectors, HERMES)["capabilities"] == ["embedding"]
    assert sheet(ModelCard(INFO, is_default=True), "")["model_info"] == {}


async def test_routes(fake: FakeInference, ollama: Ollama, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "chat_template_for", AsyncMock(return_value=HERMES))
    get = ollama.client.get
    assert [m["name"] for m in (await get("/api/tags")).json()["models"]] == ["tiny"]
    assert [m["name"] for m in (await get("/api/ps")).json()["models"]] == ["tiny"]
    version = (await get("/api/version")).json()["version"]
    assert all(part.isdigit() for part in version.split("."))
    for fields in ({"model": "tiny:latest"}, {"name": "tiny"}):
        response = await ollama.raw("/api/show", json.dumps(fields).encode())
        assert response.json()["template"] == HERMES
    response = await ollama.raw("/api/show", b'{"model": "nobody"}')
    assert response.status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [("post", f"/api/{name}") for name in ("pull", "push", "create", "copy", "blobs/sha256:1")]
    + [("delete", "/api/delete"), ("head", "/api/blobs/sha256:1")],
)
async def test_models_are_administered_elsewhere(
    fake: FakeInference, ollama: Ollama, method: str, path: str
) -> None:
    call = getattr(ollama.client, method)
    response = await call(path, **({} if method == "head" else JSON))
    assert response.status_code == 501
    if method != "head":
        assert "/admin/" in response.json()["error"]


@pytest.mark.parametrize("path", ["/api/", "/api/nothing", "/api/chat/more"])
async def test_other_addresses(fake: FakeInference, ollama: Ollama, path: str) -> None:
    response = await ollama.client.get(path)
    assert response.status_code == 404
    assert set(response.json()) == {"error"}
    assert (await ollama.client.get(CHAT)).status_code == 405


@both
async def test_without_a_prompt_one_waits_for_the_model(
    says: Says, ollama: Ollama, path: str
) -> None:
    fake = says(Result(TokenizeResult((1,))), Finished("stop"))
    for more in ({}, {"stream": True}, {"keep_alive": "5m"}, {"keep_alive": -1}):
        body = await kept(ollama, path, model="tiny:latest", **more)
        assert body["done_reason"] == "load"
        assert body["model"] == "tiny"
        assert isinstance(fake.submitted.pop(), TokenizeRequest)


@both
async def test_another_servers_model_is_always_there(says: Says, ollama: Ollama, path: str) -> None:
    says(Failed("not_supported", "text is tokenised elsewhere"))
    assert (await kept(ollama, path))["done_reason"] == "load"


async def test_a_model_that_does_not_load(says: Says, ollama: Ollama) -> None:
    says(Failed("model_unavailable", "it needs 9 GB, there are 8"))
    assert await ollama.post(CHAT, messages=[]) == (503, {"error": "it needs 9 GB, there are 8"})


@both
async def test_only_administrators_unload(
    fake: FakeInference, ollama: Ollama, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def unload(_caller: Any, name: str, _address: Any) -> None:
        if fake.refusal is not None:
            raise fake.refusal
        done.append(name)

    monkeypatch.setattr(acts, "unload", unload)
    fake.refusal = ForbiddenError("this API key lacks the scope")
    status, body = await ollama.post(path, **EMPTY[path], keep_alive=0)
    assert (status, body) == (403, {"error": "this API key lacks the scope"})
    fake.refusal = None
    assert (await kept(ollama, path, keep_alive="0s"))["done_reason"] == "unload"
    assert done == ["tiny"]
    assert not fake.submitted


async def test_what_was_unloaded_only_administrators_load(
    says: Says, ollama: Ollama, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(Result(TokenizeResult((1,))), Finished("stop"))
    loaded: list[str] = []

    async def resolve(_user_id: int, _name: str | None, _only: Any = ()) -> ModelInfo:
        return ModelInfo("tiny", 0, 1, "mock", is_loaded=False)

    monkeypatch.setattr("inference.api.model_resolve_for", resolve)
    monkeypatch.setattr(acts, "load", lambda _caller, name, _address: loaded.append(name))
    monkeypatch.setattr(residency, "is_administrator", lambda *_args: False)
    status, body = await ollama.post(CHAT, messages=[])
    assert (status, body) == (503, {"error": "model tiny is not loaded"})
    monkeypatch.setattr(residency, "is_administrator", lambda *_args: True)
    assert (await kept(ollama, CHAT))["done_reason"] == "load"
    assert loaded == ["tiny"]


@both
async def test_keep_alive_beside_a_prompt_changes_nothing(
    says: Says, ollama: Ollama, path: str
) -> None:
    fake = says(*ANSWER)
    for keep_alive in (0, "0", -1, "10m"):
        status, body = await ollama.post(path, keep_alive=keep_alive)
        assert (status, body["done_reason"]) == (200, "stop")
    assert len(fake.submitted) == 4


EMPTY: dict[str, dict[str, Any]] = {CHAT: {"messages": []}, "/api/generate": {"prompt": ""}}
ANSWER: tuple[Event, ...] = (Finished("stop"),)


async def kept(ollama: Ollama, path: str, **body: Any) -> dict[str, Any]:
    """The answer to a request without a prompt: one object, streamed or not."""
    status, got = await ollama.post(path, **EMPTY[path], **body)
    assert status == 200, got
    assert got["done"] is True
    text = got["message"]["content"] if path == CHAT else got["response"]
    assert text == ""
    return dict(got)
