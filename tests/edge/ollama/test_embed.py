"""Vectors in Ollama's shapes."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inference.protocol.events import Event, Failed, Finished, Result
from inference.protocol.requests import EmbedRequest, TextPrompt
from inference.protocol.results import EmbedResult
from llamaweb.lib.errors import BusyError
from tests.edge.ollama.lines import Ollama
from tests.fakes.inference_api import FakeInference, scripted

EMBED, EMBEDDINGS = "/api/embed", "/api/embeddings"


def packed(*numbers: float) -> str:
    """As engines write a vector."""
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


@pytest.fixture
def fake(fake: FakeInference) -> FakeInference:
    """An engine whose vectors tell which input they are of."""

    async def script(request: Any) -> AsyncIterator[Event]:
        vectors = tuple(packed(index, 0.5) for index in range(len(request.inputs)))
        yield Result(EmbedResult(vectors, 2, 3 * len(vectors)))
        yield Finished("stop")

    fake.script = script
    return fake


async def ask(ollama: Ollama, path: str, **body: Any) -> tuple[int, Any]:
    """Status and body."""
    response = await ollama.raw(path, json.dumps(body).encode())
    return response.status_code, json.loads(response.content)


async def test_several_texts(fake: FakeInference, ollama: Ollama) -> None:
    status, body = await ask(ollama, EMBED, model="tiny:latest", input=["a", "b 😺"])
    assert status == 200
    assert body["embeddings"] == [[0.0, 0.5], [1.0, 0.5]]
    assert (body["model"], body["prompt_eval_count"]) == ("tiny", 6)
    assert body["total_duration"] > 0
    (request,) = fake.submitted
    assert isinstance(request, EmbedRequest)
    assert request.inputs == (TextPrompt("a"), TextPrompt("b 😺"))
    assert (request.normalize, request.is_pooled, request.dimensions) == (2, True, None)


@pytest.mark.parametrize(("asked", "cuts"), [({}, True), ({"truncate": False}, False)])
async def test_too_long_texts_are_cut_unless_that_is_refused(
    fake: FakeInference, ollama: Ollama, asked: dict[str, Any], cuts: bool
) -> None:
    status, body = await ask(ollama, EMBED, input="a", dimensions=1, **asked)
    assert (status, len(body["embeddings"])) == (200, 1)
    (request,) = fake.submitted
    assert isinstance(request, EmbedRequest)
    assert (request.truncates, request.dimensions) == (cuts, 1)


async def test_nothing_has_no_vectors(fake: FakeInference, ollama: Ollama) -> None:
    for nothing in ({}, {"input": []}, {"input": None}):
        assert (await ask(ollama, EMBED, **nothing))[1]["embeddings"] == []
    assert (await ask(ollama, EMBEDDINGS, prompt=""))[1] == {"embedding": []}
    assert not fake.submitted


async def test_the_older_route(fake: FakeInference, ollama: Ollama) -> None:
    assert await ask(ollama, EMBEDDINGS, prompt="a") == (200, {"embedding": [0.0, 0.5]})
    (request,) = fake.submitted
    assert isinstance(request, EmbedRequest)
    assert request.normalize == -1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"input": 7}, "input"),
        ({"input": ["a", 7]}, "input[1]"),
        ({"input": [[1, 2]]}, "input[0]"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "x" * (4 * 1024 * 1024 + 1)}, "input"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "truncate": "yes"}, "truncate"),
    ],
)
async def test_client_errors(
    fake: FakeInference, ollama: Ollama, body: dict[str, Any], field: str
) -> None:
    status, got = await ask(ollama, EMBED, **body)
    assert status == 400
    assert got["error"].startswith(f"{field}: ")
    assert not fake.submitted


@pytest.mark.parametrize("path", [EMBED, EMBEDDINGS])
async def test_what_the_engine_and_the_queue_refuse(
    fake: FakeInference, ollama: Ollama, path: str
) -> None:
    fields = {"input": "a", "prompt": "a"}
    fake.script = scripted(Failed("not_supported", "this model makes no vectors"))
    assert await ask(ollama, path, **fields) == (501, {"error": "this model makes no vectors"})
    fake.script = scripted(Failed("engine_failed", "it broke"))
    assert (await ask(ollama, path, **fields))[0] == 500
    fake.refusal = BusyError("too many", reason="owner_queue_full", retry_after_s=5)
    assert (await ask(ollama, path, **fields))[0] == 429
