"""Case P14: one key, in either of two headers, on every route."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from llamaweb.accounts import keys
from llamaweb.accounts.models import Scope
from llamaweb.lib.ids import new_id
from tests.factories import make_key

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("tests.llamaweb.api_for_tests"),
]
WRONG = keys.new_key()


def get(address: str = "/v1/whoami", client: str = "192.0.2.1", **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Client(REMOTE_ADDR=client).get(address, headers=named)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer {key}"},
        {"authorization": "bearer {key}"},
        {"authorization": "BEARER {key}"},
        {"authorization": "  Bearer    {key}   "},
        {"authorization": "{key}"},
        {"x_api_key": "{key}"},
        {"x_api_key": "  {key}  "},
        {"authorization": "", "x_api_key": "{key}"},
        {"authorization": "Bearer {key}", "x_api_key": WRONG},
    ],
)
def test_good(alice_key: str, headers: dict[str, str]) -> None:
    filled = {name: value.format(key=alice_key) for name, value in headers.items()}
    assert get(**filled).json() == {"user": "alice"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Bearer {key}x"},
        {"authorization": "Basic {key}"},
        {"authorization": f"Bearer {WRONG}"},
        {"authorization": f"Bearer {WRONG}", "x_api_key": "{key}"},
        {"x_api_key": WRONG},
        {"x_api_key": "x" * 10_000},
        {"authorization": "Bearer äöü"},
    ],
)
def test_bad(alice_key: str, headers: dict[str, str]) -> None:
    filled = {name: value.format(key=alice_key) for name, value in headers.items()}
    response = get(**filled)
    assert response.status_code == 401
    assert response.json() == {
        "error": {
            "message": "Invalid API Key",
            "type": "authentication_error",
            "param": None,
            "code": 401,
        }
    }


def test_scopes(alice: Any) -> None:
    granted = {
        Scope.INFERENCE: {"/v1/whoami": 200, "/v1/models": 200, "/v1/admin": 403},
        Scope.MODELS_READ: {"/v1/whoami": 403, "/v1/models": 200, "/v1/admin": 403},
        Scope.ADMIN: {"/v1/whoami": 200, "/v1/models": 200, "/v1/admin": 200},
    }
    for scope, answers in granted.items():
        key = make_key(alice, scopes=[scope])
        for address, status in answers.items():
            response = get(address, x_api_key=key)
            assert response.status_code == status, (scope, address)
            if status == 403:
                assert response.json()["error"]["type"] == "permission_error"


def test_guessing_from_one_address_is_bounded(
    alice_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "FAILED_KEY_RATE", 3)
    block = new_id()[:2].encode().hex()
    tries = [get(client=f"2001:db8:{block}::{n}", x_api_key=keys.new_key()) for n in range(4)]
    assert [answer.status_code for answer in tries] == [401, 401, 401, 429]
    assert int(tries[-1]["Retry-After"]) >= 1
    assert tries[-1].json()["error"]["reason"] == "failed_keys"
    elsewhere = get(client="2001:db8:1::1", x_api_key=keys.new_key())
    assert elsewhere.status_code == 401


def test_a_right_key_is_not_refused_for_the_wrong_ones_of_its_address(
    alice_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "FAILED_KEY_RATE", 1)
    address = f"2001:db8:{new_id()[:2].encode().hex()}:1::1"
    tries = [get(client=address, x_api_key=keys.new_key()).status_code for _ in range(2)]
    assert tries == [401, 429]
    assert get(client=address, x_api_key=alice_key).status_code == 200


@pytest.fixture
def counted(settings: Any) -> None:
    """Two requests a minute; under a prefix of its own: counters outlive a test."""
    settings.REDIS_PREFIX = f"{new_id()}:"
    settings.KEY_RATE = 2


@pytest.mark.usefixtures("counted")
def test_requests_with_one_key_are_bounded_when_asked_for(alice: Any) -> None:
    key, other = make_key(alice), make_key(alice)
    answers = [get(x_api_key=key) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2].json()["error"]["reason"] == "key_rate"
    assert 1 <= int(answers[2]["Retry-After"]) <= 30
    assert get(x_api_key=other).status_code == 200


@pytest.mark.usefixtures("counted")
def test_every_answer_tells_what_is_left(alice: Any, settings: Any) -> None:
    settings.USER_TOKENS_MINUTE = 1000
    key = make_key(alice)
    for address, remaining in (("/v1/whoami", 1), ("/v1/raise/invalid", 0), ("/v1/whoami", 0)):
        answer = get(address, x_api_key=key)
        assert answer["X-RateLimit-Limit-Requests"] == "2"
        assert answer["X-RateLimit-Remaining-Requests"] == str(remaining)
        assert re.fullmatch(r"(1m)?\d{1,2}s", answer["X-RateLimit-Reset-Requests"])
        assert answer["X-RateLimit-Limit-Tokens"] == "1000"
        assert answer["X-RateLimit-Remaining-Tokens"] == "1000"
        assert answer["X-RateLimit-Reset-Tokens"] == "0s"
    assert answer.status_code == 429


def test_what_is_not_limited_is_not_told(alice_key: str) -> None:
    answer = get(x_api_key=alice_key)
    assert not [name for name in answer.headers if name.lower().startswith("x-ratelimit")]


def test_requests_without_a_key_are_bounded_by_address(alice_key: str, settings: Any) -> None:
    settings.ADDRESS_RATE = 2
    address = f"2001:db8:{new_id()[:2].encode().hex()}:7::1"
    answers = [get(client=address) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [401, 401, 429]
    assert answers[2].json()["error"]["reason"] == "address_rate"
    assert get(client=address, x_api_key=alice_key).status_code == 200


@pytest.mark.urls("llamaweb.urls")
def test_every_route_of_the_family_wants_a_key() -> None:
    from llamaweb.api import openai_api

    paths = openai_api.get_openapi_schema(path_prefix="/v1/")["paths"]
    for path, methods in paths.items():
        for method in methods:
            call = getattr(Client(), method)
            for headers in ({}, {"X-Api-Key": WRONG}, {"Authorization": f"Bearer {WRONG}"}):
                response = call(path, headers=headers)
                assert response.status_code == 401, (method, path)
                assert response.json()["error"]["type"] == "authentication_error"
