"""One key, in either of two headers, on every route of every API."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from django.test import Client

from llamaweb.accounts import keys
from llamaweb.lib.ids import new_id
from llamaweb.reference.document import FAMILIES
from tests.edge.cases.family import Family
from tests.edge.cases.said import Ask
from tests.edge.cases.table import each
from tests.factories import make_key

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_server")]
WRONG = keys.new_key()
BAD: tuple[dict[str, str], ...] = (
    {},
    {"Authorization": f"Bearer {WRONG}"},
    {"X-Api-Key": WRONG},
    {"Authorization": "Bearer"},
    {"Authorization": f"Basic {WRONG}"},
)
GOOD = (
    {"Authorization": "Bearer {key}"},
    {"Authorization": "  bearer    {key}  "},
    {"X-Api-Key": " {key} "},
    {"Authorization": "Bearer {key}", "X-Api-Key": WRONG},
)


@pytest.fixture(autouse=True)
def _many_tries(settings: Any) -> None:
    """Of one address, counted by nobody else."""
    settings.REDIS_PREFIX = f"{new_id()}:"
    settings.FAILED_KEY_RATE = 10**6


@pytest.mark.parametrize("api", FAMILIES, ids=lambda api: api.name)
def test_every_route_wants_a_key(api: Any) -> None:
    """P14: without a right one it is 401, in the shape of the API."""
    paths = api.api.get_openapi_schema(path_prefix=api.prefix)["paths"]
    assert paths
    clients = [Client(headers=headers) for headers in BAD]
    for path, methods in paths.items():
        for client, method in itertools.product(clients, methods):
            response = getattr(client, method)(re.sub(r"\{\w+\}", "x", path))
            assert response.status_code == 401, (method, path, client.defaults)
            assert _is_of(api.name, response.json()), path


def _is_of(name: str, body: Any) -> bool:
    if name == "Ollama":
        return bool(body == {"error": "Invalid API Key"})
    error = {"type": "authentication_error", "message": "Invalid API Key"}
    if name == "Anthropic":
        return bool(body == {"type": "error", "error": error})
    return bool(body == {"error": {**error, "param": None, "code": 401}})


@each("P14")
@pytest.mark.parametrize("headers", GOOD, ids=[" and ".join(headers) for headers in GOOD])
def test_either_header_will_do(alice: Any, family: Family, headers: dict[str, str]) -> None:
    """P14: spaces and the scheme's case don't matter; of two keys that behind Bearer counts."""
    key = make_key(alice)
    client = Client(headers={name: text.format(key=key) for name, text in headers.items()})
    body = json.dumps({**family.body(Ask()), "model": "absent"})
    response = client.post(family.path, body, content_type="application/json")
    assert response.status_code == 404
    assert "absent" in family.refusal(response.json()).message
    client = Client(headers={"Authorization": f"Bearer {WRONG}", "X-Api-Key": key})
    response = client.post(family.path, body, content_type="application/json")
    assert response.status_code == 401
