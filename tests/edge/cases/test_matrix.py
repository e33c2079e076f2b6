"""Every route that asks an engine, streamed and not, however it may end, on the mock engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest

from inference.protocol.events import Event, Failed, Started
from inference.protocol.requests import EngineRequest, GenerateRequest
from llamaweb.lib.errors import BusyError
from llamaweb.reference.document import api_document
from tests.edge.cases import families
from tests.edge.cases.families import post, send
from tests.edge.cases.routes import OTHERS, ROUTES, Route
from tests.edge.cases.said import Refusal, Stream
from tests.edge.test_disconnect import AsgiClient, until
from tests.fakes.inference_api import FakeInference, scripted
from tests.fakes.worked import Worked
from tests.worker.conftest import Bench

CONTEXT = 2048
FAIL_AFTER = 3
TOO_LONG = Failed(
    "context_length_exceeded", "too long", details=(("n_prompt_tokens", 5012), ("n_ctx", 256))
)
WAYS = [(route, way) for route in ROUTES for way in (False, True) if route.family or not way]
each_way = pytest.mark.parametrize(
    ("route", "stream"), WAYS, ids=[f"{r}-{'stream' if way else 'whole'}" for r, way in WAYS]
)


@pytest.fixture(scope="module")
def engines() -> Iterator[dict[str, Worked]]:
    """Workers that are well, and such that fail."""
    benches = {"well": Bench(), "failing": Bench()}
    benches["well"].start(context_len=CONTEXT)
    benches["failing"].start(context_len=CONTEXT, fail_after=FAIL_AFTER)
    yield {name: Worked(bench) for name, bench in benches.items()}
    for bench in benches.values():
        bench.stop()


@pytest.fixture
def served(fake: FakeInference, engines: dict[str, Worked]) -> FakeInference:
    """A server whose engine is well."""
    fake.script = engines["well"].script
    fake.max_context = CONTEXT
    return fake


def body_of(route: Route, stream: bool, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A request, to which `more` is added."""
    body = {**route.body, **(more or {})}
    return {**body, "stream": stream} if route.family else body


async def streamed(route: Route) -> Stream:
    """What comes in a stream of the request."""
    assert route.family is not None
    return await families.stream(route.family, {**route.body, **route.family.streamed}, route.path)


async def refusal(
    route: Route, stream: bool, status: int, more: Mapping[str, Any] | None = None
) -> Refusal:
    """What is said to a request before anything else."""
    got, told = await send(route.path, body_of(route, stream, more))
    assert got == status, told
    return route.shape.refusal(told)


@each_way
async def test_ok(served: FakeInference, route: Route, stream: bool) -> None:
    status, told = await send(route.path, body_of(route, False))
    assert status == 200, told
    assert told
    if route.family is not None:
        whole = route.family.reply(told)
        assert whole.text
        assert whole.end == "stop"
        if stream:
            assert (await streamed(route)).reply == whole
    assert served.cancelled == []
    assert not served.reading


@each_way
async def test_client_error(served: FakeInference, route: Route, stream: bool) -> None:
    told = await refusal(route, stream, 400, route.wrong)
    assert told.param is not None
    assert told.param.startswith(next(iter(route.wrong)))
    assert served.submitted == []


@each_way
async def test_an_unknown_model(served: FakeInference, route: Route, stream: bool) -> None:
    assert "absent" in (await refusal(route, stream, 404, {"model": "absent"})).message
    assert served.submitted == []


@each_way
async def test_engine_failure(
    fake: FakeInference, engines: dict[str, Worked], route: Route, stream: bool
) -> None:
    fake.script = engines["failing"].script
    if not route.has_steps:  # no step of an engine is needed for it
        fake.script = scripted(Failed("engine_failed", "it broke"))
    if stream:
        broken = await streamed(route)
        assert (broken.reply, len(broken.text)) == (None, FAIL_AFTER)
        assert broken.error is not None
        assert broken.error.message
    else:
        assert (await refusal(route, stream, 500)).message
    assert fake.cancelled == []


@each_way
async def test_too_long(served: FakeInference, route: Route, stream: bool) -> None:
    if not route.has_steps:
        served.script = scripted(TOO_LONG)
    if route.cuts:
        assert (await send(route.path, body_of(route, stream, route.long)))[0] == 200
        return
    told = await refusal(route, stream, 400, route.long)
    numbers = [int(word) for word in told.message.replace("(", " ").split() if word.isdigit()]
    assert len(numbers) == 2
    assert max(numbers) >= 5000
    assert min(numbers) <= CONTEXT


@each_way
@pytest.mark.parametrize(("reason", "status"), [("queue_full", 503), ("owner_queue_full", 429)])
async def test_busy(
    served: FakeInference, route: Route, stream: bool, reason: str, status: int
) -> None:
    served.refusal = BusyError("all is full", reason=reason, retry_after_s=3.0, position=9)
    response = await post(route.path, json.dumps(body_of(route, stream)).encode())
    assert (response.status_code, response["Retry-After"]) == (status, "3")
    body = json.loads(response.content)
    assert route.shape.refusal(body).message == "all is full"
    assert f'"reason":"{reason}"' in response.content.decode()
    assert '"position":9' in response.content.decode()


@each_way
@pytest.mark.parametrize("begins", [False, True])
async def test_cancel(fake: FakeInference, route: Route, stream: bool, begins: bool) -> None:
    """A client that leaves ends what it asked, waiting or begun."""

    async def script(request: EngineRequest) -> AsyncIterator[Event]:
        if begins and isinstance(request, GenerateRequest):
            yield Started(prompt_tokens=1, cached_tokens=0)
        await asyncio.Event().wait()

    fake.script = script  # type: ignore[assignment]
    client = AsgiClient(route.path, **body_of(route, stream))
    await until(lambda: bool(fake.reading))
    await client.leave()
    await fake.wait_cancelled()
    (request,) = fake.submitted
    assert fake.cancelled == [(request.generation_id, "reader_gone")]


def test_no_route_is_forgotten() -> None:
    described = {path for path, methods in api_document()["paths"].items() if "post" in methods}
    asked = {route.path for route in ROUTES}
    assert described <= asked | set(OTHERS)
    assert set(OTHERS) <= described
    assert not asked & set(OTHERS)
