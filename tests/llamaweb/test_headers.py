"""What every answer carries: security headers, a request id, and CORS where it was asked for."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from tests.factories import UserFactory

pytestmark = pytest.mark.django_db
HOME = "https://app.example.org"


def test_pages_are_locked_down() -> None:
    response = Client().get("/accounts/login/")
    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["X-Frame-Options"] == "DENY"
    assert response["Referrer-Policy"] == "same-origin"
    assert response["Cross-Origin-Opener-Policy"] == "same-origin"


def test_api_answers_are_not_guessed_at() -> None:
    assert Client().get("/v1/nothing")["X-Content-Type-Options"] == "nosniff"


def test_api_requests_touch_no_cookie(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    client = Client()
    client.force_login(UserFactory.create())
    with django_assert_num_queries(0):
        response = client.get("/v1/nothing")
    assert not response.cookies
    assert "Vary" not in response


def test_forms_of_other_pages_are_refused() -> None:
    client = Client(enforce_csrf_checks=True)
    assert client.post("/accounts/login/", {"username": "a", "password": "b"}).status_code == 403


def test_pages_speak_the_readers_language() -> None:
    page = Client().get("/accounts/login/", headers={"Accept-Language": "de"})
    assert page["Content-Language"] == "de"
    assert "Passwort" in page.content.decode()


@pytest.mark.parametrize("address", ["/accounts/login/", "/v1/nothing", "/health"])
def test_an_unknown_host_is_refused(address: str) -> None:
    response = Client().get(address, headers={"Host": "evil.example"})
    assert response.status_code == 400
    assert response["X-Request-Id"].startswith("req_")


def test_each_request_has_an_id_that_clients_can_not_choose() -> None:
    first, second = (
        Client().get("/v1/nothing", headers={"X-Request-Id": "req_mine"})["X-Request-Id"]
        for _ in range(2)
    )
    assert first != second
    assert re.fullmatch(r"req_[A-Za-z0-9]{32}", first)


def test_no_cors_by_default() -> None:
    response = Client().get("/v1/nothing", headers={"Origin": HOME})
    assert "Access-Control-Allow-Origin" not in response


@pytest.fixture
def _allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "CORS_ORIGINS", (HOME,))


@pytest.mark.usefixtures("_allowed")
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "https://app.example.org.evil.example", "null"]
)
def test_other_origins_get_nothing(origin: str) -> None:
    response = Client().get("/v1/nothing", headers={"Origin": origin})
    assert "Access-Control-Allow-Origin" not in response
    assert "Origin" in response["Vary"]


@pytest.mark.usefixtures("_allowed")
def test_the_named_origin_may_read_without_cookies() -> None:
    response = Client().get("/v1/nothing", headers={"Origin": HOME})
    assert response["Access-Control-Allow-Origin"] == HOME
    assert "Access-Control-Allow-Credentials" not in response


@pytest.mark.usefixtures("_allowed")
def test_a_preflight_needs_no_key() -> None:
    response = Client().options(
        "/v1/models", headers={"Origin": HOME, "Access-Control-Request-Method": "POST"}
    )
    assert response.status_code == 204
    assert "POST" in response["Access-Control-Allow-Methods"]
    assert "Authorization" in response["Access-Control-Allow-Headers"]


@pytest.mark.usefixtures("_allowed")
def test_a_preflight_allows_what_the_official_client_sends() -> None:
    """A browser takes "*" for every header but Authorization, as no cookies are allowed."""
    response = Client().options(
        "/v1/chat/completions",
        headers={
            "Origin": HOME,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,x-stainless-lang,x-stainless-os",
        },
    )
    allowed = response["Access-Control-Allow-Headers"].split(", ")
    assert "Authorization" in allowed
    assert "*" in allowed
    assert "Access-Control-Allow-Credentials" not in response
