"""What answers of all API families have in common: ids, bounds, depths, and who may read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from inference.edge.refusals import refusal_body
from llamaweb.accounts import keys
from llamaweb.accounts.models import User
from tests.factories import make_key

pytestmark = pytest.mark.django_db
HOME = "https://app.example.org"
ROUTES = {
    "openai": "/v1/chat/completions",
    "bare": "/chat/completions",
    "anthropic": "/v1/messages",
    "ollama": "/api/chat",
    "native": "/tokenize",
    "models": "/v1/models",
    "app": "/api/app/me",
}
SAYS = {
    "openai": lambda body: body["error"]["message"],
    "anthropic": lambda body: body["error"]["message"],
    "ollama": lambda body: body["error"],
}
SERVED = [("openai", "/v1/chat/completions"), ("openai", "/v1/completions")]
SERVED += [("ollama", "/api/chat"), ("ollama", "/api/generate"), ("ollama", "/api/embed")]


@pytest.fixture
def client(alice: User) -> Client:
    """With a key of alice's."""
    return Client(headers={"Authorization": f"Bearer {make_key(alice)}"})


def ask(client: Client, path: str, data: bytes) -> Any:
    return client.post(path, data, content_type="application/json")


@pytest.mark.parametrize("path", ROUTES.values())
@pytest.mark.parametrize("method", ["get", "post", "delete", "put", "options"])
def test_every_answer_has_an_id(path: str, method: str) -> None:
    response = getattr(Client(), method)(path)
    assert response.status_code >= 400
    assert response["X-Request-Id"].startswith("req_")


def test_p14_every_route_of_ollamas_wants_a_key_in_either_header(alice: User) -> None:
    from llamaweb.api import ollama_api

    key, wrong = make_key(alice), keys.new_key()
    paths = ollama_api.get_openapi_schema(path_prefix="/api/")["paths"]
    assert "/api/chat" in paths
    for path, methods in paths.items():
        for method in methods:
            call = getattr(Client(), method)
            for headers in ({}, {"X-Api-Key": wrong}, {"Authorization": f"Bearer {wrong}"}):
                response = call(path, headers=headers)
                assert (response.status_code, response.json()) == (
                    401,
                    {"error": "Invalid API Key"},
                )
            for headers in ({"X-Api-Key": f" {key} "}, {"Authorization": f"bearer  {key}"}):
                assert call(path, headers=headers).status_code != 401


@pytest.mark.parametrize(("family", "path"), SERVED)
def test_a_body_over_the_bound_is_413(
    client: Client, family: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "DATA_UPLOAD_MAX_MEMORY_SIZE", 1000)
    response = ask(client, path, b"{" + b" " * 1000 + b"}")
    assert response.status_code == 413
    assert "too large" in SAYS[family](response.json())


def test_before_any_route_it_has_the_familys_shape_too() -> None:
    assert refusal_body("/api/chat", 413, "no", "req_1", max_body_bytes=1) == {"error": "no"}
    assert refusal_body("/v1/messages", 413, "no", "req_1", max_body_bytes=1) == {
        "type": "error",
        "error": {"type": "request_too_large", "message": "no"},
        "request_id": "req_1",
    }
    for path in ("/v1/chat/completions", "/api/app/me", "/tokenize", ""):
        error = refusal_body(path, 413, "no", "req_1", max_body_bytes=1)["error"]
        assert (error["message"], error["code"], error["max_body_bytes"]) == ("no", 413, 1)


@pytest.mark.parametrize(("family", "path"), SERVED)
@pytest.mark.parametrize("depth", [129, 1000, 10_000, 100_000])
def test_a_body_is_not_nested_without_end(
    client: Client, family: str, path: str, depth: int
) -> None:
    """P13: also where nobody reads the field."""
    nested = b"[" * depth + b"]" * depth
    response = ask(client, path, b'{"nobody_reads_it": ' + nested + b"}")
    assert response.status_code == 400
    said = SAYS[family](response.json())
    assert "nested too deeply" in said or "not valid JSON" in said


@pytest.mark.parametrize(
    ("family", "path", "field"),
    [
        ("openai", "/v1/chat/completions", "json_schema"),
        ("ollama", "/api/chat", "format"),
        ("ollama", "/api/chat", "tools"),
        ("ollama", "/api/generate", "format"),
        ("ollama", "/api/embed", "input"),
    ],
)
def test_a_field_that_is_read_is_named_before(
    client: Client, family: str, path: str, field: str
) -> None:
    nested: Any = []
    for _ in range(64):
        nested = [nested]
    response = ask(client, path, json.dumps({"messages": [], field: nested}).encode())
    assert response.status_code == 400
    assert SAYS[family](response.json()).startswith(f"{field}: ")


@pytest.mark.parametrize(("family", "path"), SERVED)
@pytest.mark.parametrize("data", [b"", b"null", b"[]", b'"x"', b"{", b"\xff", b'{"a": NaN}'])
def test_what_is_no_json_object_is_400(client: Client, family: str, path: str, data: bytes) -> None:
    response = ask(client, path, data)
    assert response.status_code == 400
    assert SAYS[family](response.json())


HEADERS = (
    *("authorization", "content-type", "x-api-key", "anthropic-version", "anthropic-beta"),
    *("x-conversation-id", "last-event-id", "x-stainless-lang"),
)


@pytest.mark.parametrize("path", ROUTES.values())
def test_a_preflight_is_answered_for_every_family(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {
        "Origin": HOME,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": ",".join(HEADERS),
    }
    assert "Access-Control-Allow-Origin" not in Client().options(path, headers=asked)
    monkeypatch.setattr(settings, "CORS_ORIGINS", (HOME,))
    response = Client().options(path, headers=asked)
    assert response.status_code == 204
    assert response["Access-Control-Allow-Origin"] == HOME
    allowed = response["Access-Control-Allow-Headers"].lower().split(", ")
    assert set(HEADERS) - set(allowed) == {"x-stainless-lang"}
    assert "*" in allowed
    assert {"GET", "POST", "DELETE"} <= set(response["Access-Control-Allow-Methods"].split(", "))


@pytest.mark.parametrize("path", ROUTES.values())
def test_refusals_may_be_read_as_well(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "CORS_ORIGINS", (HOME,))
    response = Client().get(path, headers={"Origin": HOME})
    assert response.status_code >= 400
    assert response["Access-Control-Allow-Origin"] == HOME
    assert "X-Request-Id" in response["Access-Control-Expose-Headers"]


@pytest.mark.parametrize(
    ("origin", "is_local"),
    [
        ("http://localhost", True),
        ("http://localhost:5173", True),
        ("https://localhost:8443", True),
        ("http://127.0.0.1:3000", True),
        ("http://[::1]:3000", True),
        ("app://localhost", True),
        ("http://localhost.evil.com", False),
        ("http://notlocalhost", False),
        ("http://localhost@evil.com", False),
        ("http://evil.com/localhost", False),
        ("http://[::1", False),
        ("https://127.0.0.2", False),
        ("null", False),
        ("", False),
    ],
)
def test_localhost_stands_for_the_readers_machine(
    origin: str, is_local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "CORS_ORIGINS", (HOME, "localhost"))
    response = Client().get("/v1/nothing", headers={"Origin": origin})
    assert response.get("Access-Control-Allow-Origin") == (origin if is_local else None)
    own = Client().get("/v1/nothing", headers={"Origin": HOME})
    assert own["Access-Control-Allow-Origin"] == HOME
