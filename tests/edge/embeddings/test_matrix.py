"""Every route, however it may end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from inference.protocol.events import Event
from llamaweb.lib.errors import BusyError
from tests.edge.wire import Wire
from tests.fakes.inference_api import FakeInference
from tests.until import until

EMBED = {"input": "hello"}
RANK = {"query": "hello", "documents": ["hallo", "xyz"]}
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/embeddings": EMBED,
    "/embeddings": EMBED,
    "/embedding": EMBED,
    "/v1/rerank": RANK,
    "/v1/reranking": RANK,
    "/rerank": RANK,
    "/reranking": RANK,
}
LONG = "x" * 600  # one token a byte; the mock reads 512 at once
Use = Callable[..., FakeInference]

pytestmark = pytest.mark.parametrize("path", ROUTES)


async def post(wire: Wire, path: str, **body: Any) -> tuple[int, Any, Any]:
    """Status, body and the response."""
    response = await wire.raw(path, json.dumps(body).encode())
    return response.status_code, json.loads(response.content), response


async def test_ok(path: str, engine: Use, wire: Wire) -> None:
    fake = engine()
    status, body, response = await post(wire, path, **ROUTES[path])
    assert status == 200
    assert response["Content-Type"].startswith("application/json")
    assert body
    assert [request.model for request in fake.submitted] == ["tiny"]
    assert fake.cancelled == []


async def test_client_error(path: str, engine: Use, wire: Wire) -> None:
    fake = engine()
    for bad in ({}, {"input": [], "query": 5}, {"input": [None], "query": "q", "documents": [1]}):
        status, body, _ = await post(wire, path, **bad)
        assert status == 400
        assert body["error"]["type"] == "invalid_request_error"
        assert body["error"]["param"]
    assert fake.submitted == []


async def test_engine_failure(path: str, engine: Use, wire: Wire) -> None:
    engine(fail_after=2)
    status, body, _ = await post(wire, path, **ROUTES[path])
    assert status == 500
    assert body["error"]["type"] == "server_error"
    assert "hello" not in json.dumps(body)


async def test_cancel(path: str, fake: FakeInference, wire: Wire) -> None:
    async def never(_request: Any) -> AsyncIterator[Event]:
        await asyncio.Event().wait()
        yield  # type: ignore[misc]

    fake.script = never
    asking = asyncio.create_task(post(wire, path, **ROUTES[path]))
    await until(lambda: bool(fake.reading), 10)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await fake.wait_cancelled()
    assert fake.cancelled == [(fake.submitted[0].generation_id, "reader_gone")]


async def test_too_long(path: str, engine: Use, wire: Wire) -> None:
    engine()
    long = {"input": ["a", LONG], "query": "q", "documents": ["a", LONG]}
    status, body, _ = await post(wire, path, **long)
    error = body["error"]
    assert status == 400
    assert error["type"] == "exceed_context_size_error"
    assert error["n_prompt_tokens"] >= 600
    assert error["n_ctx"] == 512
    assert error["param"] == ("input[1]" if "embed" in path else "documents[1]")
    assert all(str(error[name]) in error["message"] for name in ("n_prompt_tokens", "n_ctx"))


@pytest.mark.parametrize(("reason", "expected"), [("queue_full", 503), ("owner_queue_full", 429)])
async def test_busy(path: str, engine: Use, wire: Wire, reason: str, expected: int) -> None:
    fake = engine()
    fake.refusal = BusyError("full", reason=reason, retry_after_s=3.0)
    status, body, response = await post(wire, path, **ROUTES[path])
    assert status == expected
    assert response["Retry-After"] == "3"
    assert body["error"]["reason"] == reason


async def test_a_model_that_does_something_else(path: str, engine: Use, wire: Wire) -> None:
    engine(only="reranking" if "embed" in path else "embedding")
    status, body, _ = await post(wire, path, **ROUTES[path])
    assert (status, body["error"]["param"]) == (400, "model")


async def test_another_method_and_another_model(path: str, engine: Use, wire: Wire) -> None:
    engine()
    assert (await wire.client.get(path)).status_code == 405
    status, body, _ = await post(wire, path, **{**ROUTES[path], "model": "absent"})
    assert (status, body["error"]["type"]) == (404, "not_found_error")
