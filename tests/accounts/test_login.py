"""Password login is bounded per address and name."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.http import HttpResponse
from django.test import Client

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
    form: dict[str, Any] = {"username": name, "password": password}
    return Client(REMOTE_ADDR=address).post("/admin/login/?next=/admin/", form)


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
