"""Password login is bounded per address and name."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.http import HttpResponse
from django.test import Client, RequestFactory

from llamaweb.accounts.login import ThrottledBackend
from llamaweb.lib.errors import BusyError
from llamaweb.lib.ids import new_id
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _three_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "LOGIN_RATE", 3)


@pytest.fixture
def name() -> str:
    """A user nobody has tried before: counters outlive a test."""
    user = UserFactory.create(username=new_id("user"), is_staff=True)
    return str(user.username)


def log_in(name: str, password: str, address: str = "192.0.2.7") -> HttpResponse:
    form: dict[str, Any] = {"login": name, "password": password}
    return Client(REMOTE_ADDR=address).post("/accounts/login/?next=/admin/", form)


def test_after_too_many_failures_even_the_right_password_waits(name: str) -> None:
    assert [log_in(name, "wrong").status_code for _ in range(3)] == [200, 200, 200]
    response = log_in(name, "password")
    assert response.status_code == 429
    assert 1 <= int(response["Retry-After"]) <= 60


def test_case_does_not_reset_the_count(name: str) -> None:
    for attempt in (name, name.upper(), name.title()):
        log_in(attempt, "wrong")
    assert log_in(name, "password").status_code == 429


def test_another_address_and_another_name_go_on(name: str) -> None:
    for _ in range(3):
        log_in(name, "wrong")
    assert log_in(name, "password", address="192.0.2.8").status_code == 302
    other = UserFactory.create(username=new_id("user"), is_staff=True)
    assert log_in(other.username, "password").status_code == 302


def test_success_is_not_counted(name: str) -> None:
    for _ in range(5):
        assert log_in(name, "password").status_code == 302


def test_tries_side_by_side_are_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one password is being hashed, the next try comes in."""
    hashed: list[str] = []
    request = RequestFactory().get("/", REMOTE_ADDR="192.0.2.9")

    def another_comes(self: ModelBackend, *_args: Any, **_kwargs: Any) -> None:
        hashed.append(name)
        if len(hashed) < 10:
            with contextlib.suppress(BusyError):
                ThrottledBackend().authenticate(request, username=name, password="wrong")

    monkeypatch.setattr(ModelBackend, "authenticate", another_comes)
    ThrottledBackend().authenticate(request, username=name, password="wrong")
    assert len(hashed) == 3


def test_an_address_is_bounded_whatever_the_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "LOGIN_ADDRESS_RATE", 4)
    for number in range(4):  # of the same /64
        address = f"2001:db8:77::{number + 1}"
        assert log_in(new_id("user"), "wrong", address=address).status_code == 200
    assert log_in(new_id("user"), "wrong", address="2001:db8:77::9").status_code == 429
    assert log_in(name, "password", address="2001:db8:78::1").status_code == 302


def test_hammering_one_name_leaves_the_rest_of_the_address(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "LOGIN_ADDRESS_RATE", 4)
    for _ in range(6):
        log_in("hammered", "wrong", address="192.0.2.77")
    assert log_in(name, "password", address="192.0.2.77").status_code == 302
