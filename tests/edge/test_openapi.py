"""One description of all APIs: it is valid, its examples work, and nothing answers otherwise."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import pytest
import requests
import schemathesis
from asgiref.sync import async_to_sync
from django.test import AsyncClient
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as hypothesis_settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from inference import bus
from inference.models import ModelConfig
from llamaweb.lib.ids import new_id
from llamaweb.reference.document import EVENTS, FAMILIES, api_document
from llamaweb.reference.examples import EXAMPLES
from llamaweb.reference.page import curl_of, groups_of
from tests.fakes.inference_api import FakeInference
from tests.fakes.kept_logs import KeptLogs
from tests.fakes.worked import Worked
from tests.worker.conftest import Bench

MAX_EXAMPLES = 5  # a route and kind of input
SEED = 20261130
BASE = "http://testserver"
DOCUMENT = api_document()
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = [found.ok() for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()]
WITH_EXAMPLE = [
    (path, method)
    for path, operations in DOCUMENT["paths"].items()
    for method in operations
    if path in EXAMPLES and "requestBody" in operations[method]
]


# Acts of administrators on models, which have tests of their own.
WITHOUT_EXAMPLE = {"/v1/models", "/v1/models/load", "/v1/models/unload"}
JSON_HEADER = "Content-Type: application/json"
KEPT_HEADERS = ("Content-Type", "X-Conversation-Id", "Last-Event-ID")
REQUEST_FIELDS = ("method", "url", "params", "headers", "json", "data", "files", "cookies")


class Served(KeptLogs):
    """All that is asked is answered by a mock engine."""

    generation_submit = FakeInference.generation_submit
    generation_events = FakeInference.generation_events  # type: ignore[assignment]


@pytest.fixture(scope="module")
def worker() -> Iterator[Bench]:
    """A mock engine."""
    bench = Bench()
    bench.start()
    yield bench
    bench.stop()


@pytest.fixture
def served(
    as_alice: None,
    transactional_db: None,
    redis_server: str,
    monkeypatch: pytest.MonkeyPatch,
    worker: Bench,
    settings: Any,
) -> Iterator[Served]:
    """The facade of it; what doesn't go through the facade finds an empty queue."""
    settings.REDIS_URL = redis_server
    settings.REDIS_PREFIX = f"{new_id()}:"
    bus.sync_queue.cache_clear()
    ModelConfig.objects.create(name="tiny", engine_class="mock")
    made = Served()
    made.script = Worked(worker).script
    made.install(monkeypatch)
    yield made
    bus.sync_queue.cache_clear()


async def _send(method: str, url: str, body: Any, headers: dict[str, str]) -> Any:
    parts = urlsplit(url)
    content_type = headers.pop("Content-Type", "application/json")
    response = await AsyncClient(raise_request_exception=False).generic(
        method,
        parts.path,
        data=body or b"",
        content_type=content_type,
        headers=headers,
        QUERY_STRING=parts.query,
    )
    if response.streaming:
        content = [part async for part in response.streaming_content]
        response.streaming_content = content
    return response


send = async_to_sync(_send)


def check_answer(response: Any, responses: dict[str, Any]) -> None:
    """Its status, its type and the shape of an error are declared."""
    status = response.status_code
    assert status != 500
    assert str(status) in responses
    content = responses[str(status)].get("content", {})
    if status == 204:
        return
    kind = response["Content-Type"].partition(";")[0]
    assert kind in content
    if status >= 400:
        shape = {**content[kind]["schema"], "components": {"schemas": SCHEMAS}}
        jsonschema.validate(json.loads(response.content), shape)


def test_it_is_openapi() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    ids = [o["operationId"] for each in DOCUMENT["paths"].values() for o in each.values()]
    assert len(set(ids)) == len(ids) > 20
    refs = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(DOCUMENT)))
    assert refs <= SCHEMAS.keys()
    for family in FAMILIES:
        paths = family.api.get_openapi_schema(path_prefix=family.prefix)["paths"]
        for path, operations in paths.items():
            assert operations.keys() <= DOCUMENT["paths"][path].keys()
    assert {"/v1/chat/completions", "/completion", "/v1/stream"} <= DOCUMENT["paths"].keys()


def test_every_route_with_a_body_has_an_example() -> None:
    bodies = {
        p for p, each in DOCUMENT["paths"].items() for o in each.values() if "requestBody" in o
    }
    assert bodies - set(EXAMPLES) - WITHOUT_EXAMPLE == set()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_what_is_asked_is_answered_as_declared(
    served: Served, operation: Any, settings: Any
) -> None:
    if operation.path == EVENTS:  # its stream ends by itself with its time
        settings.REQUEST_TIMEOUT_S = 0.05
    responses = DOCUMENT["paths"][operation.path][operation.method.lower()]["responses"]
    for kind in GenerationMode:
        with contextlib.suppress(Unsatisfiable):  # there is nothing of this kind to ask
            asked(operation, kind, responses)


def asked(operation: Any, kind: GenerationMode, responses: dict[str, Any]) -> None:
    """Send requests that are as described, or that aren't."""

    @seed(SEED)
    @hypothesis_settings(
        max_examples=MAX_EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=kind))
    def check(case: Any) -> None:
        prepared = requests.Request(**_request_of(case)).prepare()
        assert prepared.method
        assert prepared.url
        headers = {name: value for name, value in prepared.headers.items() if name in KEPT_HEADERS}
        check_answer(send(prepared.method, prepared.url, prepared.body, headers), responses)

    check()


def _request_of(case: Any) -> dict[str, Any]:
    told = case.as_transport_kwargs(base_url=BASE)
    return {k: v for k, v in told.items() if k in REQUEST_FIELDS}


@pytest.mark.parametrize(("path", "method"), WITH_EXAMPLE, ids=str)
def test_examples_run_as_they_are_shown(served: Served, path: str, method: str) -> None:
    operation = DOCUMENT["paths"][path][method]
    words = shlex.split(curl_of(path, method, operation, BASE).replace("\\\n", ""))
    assert words[:3] == ["curl", "-X", method.upper()]
    assert words[4:8] == ["-H", "Authorization: Bearer $LLAMAWEB_API_KEY", "-H", JSON_HEADER]
    assert words[8] == "-d"
    response = send(method.upper(), words[3], words[9].encode(), {})
    assert response.status_code == 200, response.content


async def test_the_page_shows_all_of_it_without_scripts() -> None:
    client = AsyncClient()
    page = await client.get("/api/docs")
    assert page.status_code == 200
    text = page.content.decode()
    assert "<script" not in text
    assert " style=" not in text
    assert "script-src" not in page["Content-Security-Policy"]
    assert "default-src 'none'" in page["Content-Security-Policy"]
    for path in DOCUMENT["paths"]:
        assert f"<code>{path}</code>" in text
    for group in groups_of(DOCUMENT, BASE):
        for route in group.routes:
            assert f'id="{route.anchor}"' in text
    told = await client.get("/api/openapi.json")
    assert json.loads(told.content) == json.loads(json.dumps(DOCUMENT))
    assert (await client.post("/api/docs")).status_code == 405
