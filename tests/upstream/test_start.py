"""Before it serves, an upstream has to be there, at an address that may be asked, with our key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from inference.engine.local import LocalEngine
from inference.engine.serving import build_serving
from inference.engine.upstream.health import context_in
from inference.protocol.events import Delta, Finished
from inference.protocol.spec import EngineSpec
from llamaweb.lib.errors import FailedError, InvalidError
from tests.servers import free_port
from tests.upstream.conftest import spec_of
from tests.upstream.server import MODEL, FakeUpstream
from tests.worker.conftest import WAIT_S, generate


@pytest.fixture
def engines() -> Iterator[list[Any]]:
    made: list[Any] = []
    yield made
    for engine in made:
        engine.close()


def build(upstream: FakeUpstream, engines: list[Any], **values: Any) -> Any:
    spec = EngineSpec("m", "e", "", "", "upstream", upstream=spec_of(upstream, **values))
    engine, pipeline = build_serving(spec)
    engines.append(engine)
    return engine, pipeline


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"key": "sk-wrong"}, "refuses the key"),
        ({"key": ""}, "refuses the key"),
        ({"allow": ()}, "LLAMAWEB_OUTBOUND_ALLOW"),
        ({"allow": ("example.org",)}, "LLAMAWEB_OUTBOUND_ALLOW"),
        ({"url": f"http://127.0.0.1:{free_port()}/v1"}, "can't be reached"),
        ({"url": "ftp://127.0.0.1/v1"}, "can't be asked"),
    ],
)
def test_why_it_cannot_be_served(
    upstream: FakeUpstream, engines: list[Any], values: dict[str, Any], reason: str
) -> None:
    with pytest.raises(FailedError, match=reason):
        build(upstream, engines, **values)


def test_a_list_that_fails(upstream: FakeUpstream, engines: list[Any]) -> None:
    upstream.models_status = 500
    with pytest.raises(FailedError, match="doesn't answer"):
        build(upstream, engines)


def test_a_server_without_a_list_serves(upstream: FakeUpstream, engines: list[Any]) -> None:
    upstream.models_status = 404
    assert build(upstream, engines)[0].max_context == 0


@pytest.mark.parametrize("values", [{"url": ""}, {"model": ""}])
def test_what_is_missing(upstream: FakeUpstream, engines: list[Any], values: Any) -> None:
    with pytest.raises(InvalidError):
        build(upstream, engines, **values)


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        (b'{"data": [{"id": "other", "max_model_len": 1}, {"id": "m", "max_model_len": 7}]}', 7),
        (b'{"data": [{"id": "x", "aliases": ["m"], "meta": {"n_ctx": 9}}]}', 9),
        (b'{"data": [{"id": "m", "context_length": "many"}]}', 0),
        (b'{"data": [{"id": "m", "context_length": -4, "context_window": 5}]}', 5),
        (b'{"data": {"m": 1}}', 0),
        (b'{"data": [1, null]}', 0),
        (b"[]", 0),
        (b"no json", 0),
    ],
)
def test_what_a_list_says_of_the_context(listing: bytes, expected: int) -> None:
    assert context_in(listing, "m") == expected


async def test_a_program_asks_it_like_any_engine(
    upstream: FakeUpstream, engines: list[Any]
) -> None:
    engine, pipeline = build(upstream, engines)
    local = LocalEngine(engine, pipeline.prepare)
    try:
        async with asyncio.timeout(WAIT_S):
            events = [event async for event in local.generate(generate("hello"))]
    finally:
        await local.close()
    assert "".join(e.text for e in events if isinstance(e, Delta)) == "hello"
    assert isinstance(events[-1], Finished)
    assert upstream.asked[0].body["model"] == MODEL
