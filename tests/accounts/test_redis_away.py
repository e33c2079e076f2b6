"""Redis away: pages that count tries say "later", and nothing is done uncounted."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
import redis
from django.test import Client

from llamaweb.accounts.models import SignupMode, User
from llamaweb.accounts.site_services import signup_mode_set
from tests.accounts.people import PASSWORD

pytestmark = pytest.mark.django_db

NEW = {"password1": PASSWORD, "password2": PASSWORD}
FORMS = {
    "/accounts/login/": {"login": "alice", "password": "password"},
    "/accounts/signup/": {"username": "dora", **NEW},
    "/accounts/password/change/": {"oldpassword": "password", **NEW},
    "/accounts/reauthenticate/": {"password": "password"},
}
SIGNED_OUT = ("/accounts/login/", "/accounts/signup/")


@pytest.fixture
def _away(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    signup_mode_set(mode=SignupMode.OPEN, actor=None)

    def refused(*_args: Any, **_options: Any) -> NoReturn:
        raise redis.exceptions.ConnectionError("refused")

    monkeypatch.setattr(redis.ConnectionPool, "get_connection", refused)


@pytest.mark.usefixtures("_away")
@pytest.mark.parametrize("path", FORMS)
def test_forms_are_refused_for_now(path: str, alice: User) -> None:
    client = Client()
    if path not in SIGNED_OUT:
        client.force_login(alice)
    assert client.get(path).status_code == 200
    response = client.post(path, FORMS[path])
    assert response.status_code == 503
    assert response["Retry-After"] == "1"
    assert not User.objects.filter(username="dora").exists()
    alice.refresh_from_db()
    assert alice.check_password("password")
