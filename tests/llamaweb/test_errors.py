"""One table of errors for the OpenAI family: shape, status, type, headers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from llamaweb.api_errors import field_path

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("tests.llamaweb.api_for_tests"),
]


@pytest.fixture
def client(alice_key: str) -> Client:
    return Client(raise_request_exception=False, headers={"Authorization": f"Bearer {alice_key}"})


@pytest.mark.parametrize(
    ("name", "status", "type_"),
    [
        ("invalid", 400, "invalid_request_error"),
        ("too_long", 400, "exceed_context_size_error"),
        ("authentication", 401, "authentication_error"),
        ("forbidden", 403, "permission_error"),
        ("not_found", 404, "not_found_error"),
        ("busy", 429, "rate_limit_error"),
        ("unavailable", 503, "unavailable_error"),
        ("failed", 500, "server_error"),
        ("unexpected", 500, "server_error"),
    ],
)
def test_each_error_has_its_answer(client: Client, name: str, status: int, type_: str) -> None:
    response = client.get(f"/v1/raise/{name}")
    assert response.status_code == status
    assert response["Content-Type"] == "application/json; charset=utf-8"
    body = response.json()
    assert set(body) == {"error"}
    assert body["error"].items() >= {"type": type_, "code": status}.items()
    assert set(body["error"]) >= {"message", "type", "param", "code"}


def test_what_some_of_them_add(client: Client) -> None:
    too_long = client.get("/v1/raise/too_long").json()["error"]
    assert (too_long["n_prompt_tokens"], too_long["n_ctx"]) == (9000, 8192)
    busy = client.get("/v1/raise/busy")
    assert busy["Retry-After"] == "3"
    assert busy.json()["error"]["reason"] == "owner_queue_full"
    assert client.get("/v1/raise/invalid").json()["error"]["param"] == "temperature"
    assert "Bearer" in client.get("/v1/raise/authentication")["WWW-Authenticate"]


def test_an_unexpected_error_tells_an_id_and_nothing_else(client: Client) -> None:
    response = client.get("/v1/raise/unexpected")
    assert "secret detail" not in response.content.decode()
    assert response.json()["error"]["request_id"] == response["X-Request-Id"]
    assert response["X-Request-Id"].startswith("req_")


def test_a_value_that_broke_us_is_not_logged(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert client.post("/v1/broken").status_code == 500
    assert "unexpected_value" in caplog.text
    assert "private prompt" not in caplog.text


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": "x"}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [None]}, "messages[0]"),
        ({"messages": [{"role": "user"}, {}]}, "messages[1].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user"}], "temperature": 3}, "temperature"),
        ({}, "messages"),
    ],
)
def test_a_bad_field_is_named_by_its_path(client: Client, body: Any, param: str) -> None:
    response = client.post("/v1/chat", body, content_type="application/json")
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["param"], error["type"]) == (param, "invalid_request_error")
    assert param in error["message"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nope", b"[]", b'"x"', b"\xff", b'{"a":' * 10_000, b'{"a":1}{'],
    ids=["empty", "cut", "word", "list", "text", "bytes", "deep", "two"],
)
def test_a_body_that_is_no_object_is_refused(client: Client, body: bytes) -> None:
    response = client.post("/v1/chat", body, content_type="application/json")
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_the_content_type_does_not_matter(client: Client) -> None:
    body = json.dumps({"messages": [{"role": "user"}]})
    for kind in ("application/json", "text/plain", "application/octet-stream"):
        response = client.post("/v1/chat", body, content_type=kind)
        assert response.json() == {"messages": 1}


def test_unknown_routes_answer_in_json_without_a_key() -> None:
    for address in ("/v1/nothing", "/v1/chat/nothing", "/v1/"):
        for response in (Client().get(address), Client().post(address)):
            assert response.status_code == 404
            assert response.json()["error"]["type"] == "not_found_error"


def test_an_unknown_host_is_refused_in_json() -> None:
    response = Client().get("/v1/whoami", headers={"Host": "evil.example"})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == 400


@pytest.mark.parametrize(
    ("location", "path"),
    [
        (("body", "payload", "messages", 0, "content", "str"), "messages[0].content"),
        (("body", "payload", "stop", "list[str]", 2), "stop[2]"),
        (("body", "payload"), None),
        (("body", "payload", "keep_alive", "constrained-str"), "keep_alive"),
        (("body", "payload", "metadata", "[" * 99 + "\nx"), "metadata"),
        (("body", "payload", "metadata", "x" * 101), f"metadata.{'x' * 100}…"),
        (("query", "limit"), "limit"),
        ((), None),
    ],
)
def test_json_paths(location: tuple[Any, ...], path: str | None) -> None:
    assert field_path(location) == path
