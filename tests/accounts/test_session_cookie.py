"""A session's cookie can hold anything; what can't be a key is no session, on either database."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client

from conversations.edge.live.sign_in import sign_in_read
from llamaweb.accounts.models import User
from tests.accounts.people import signed_in

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("both_databases")]
# Cookies are unquoted: this one holds a NUL, which PostgreSQL takes in no text.
NUL = '"\\000' + "a" * 31 + '"'


@pytest.mark.parametrize("value", [NUL, "a" * 5000, "a", "ä" * 32, "A" * 32, "../" * 10])
def test_what_is_no_key_is_nobody(value: str) -> None:
    headers = {"cookie": f"{settings.SESSION_COOKIE_NAME}={value}"}
    client = Client()
    assert client.get("/accounts/login/", headers=headers).status_code == 200
    assert client.get("/", headers=headers).status_code == 302
    assert client.get("/api/app/me", headers=headers).status_code == 401
    assert client.get("/api/app/live", headers=headers).status_code == 401


def test_a_live_connection_asks_for_no_such_key(alice: User) -> None:
    client = signed_in("alice")
    key = client.session.session_key
    assert key is not None
    found = sign_in_read(key)
    assert found is not None
    assert found.user == alice
    for other in ("", f"\0{key[1:]}", f"{key}\n", key.upper() + "A"):
        assert sign_in_read(other) is None
