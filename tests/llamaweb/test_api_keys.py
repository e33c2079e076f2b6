"""Case P14: one key, in either of two headers, on every route."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from limits import RateLimitItemPerMinute

from llamaweb.accounts import keys, throttle
from llamaweb.accounts.models import Scope
from llamaweb.accounts.selectors import api_key_authenticate
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


def test_requests_with_one_key_are_bounded_when_asked_for(
    alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, other = make_key(alice), make_key(alice)
    monkeypatch.setattr(settings, "KEY_RATE", 2)
    _forget_key_numbers(key, other)
    assert [get(x_api_key=key).status_code for _ in range(3)] == [200, 200, 429]
    assert get(x_api_key=other).status_code == 200


def _forget_key_numbers(*raw_keys: str) -> None:
    """Counters outlive a test, and a flushed table numbers its rows from 1 again."""
    for raw in raw_keys:
        row = api_key_authenticate(raw)
        limiter, item = throttle._limiter(), RateLimitItemPerMinute(2)
        limiter.clear(item, *throttle.key_requests()._key((str(row.pk),)))


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
