"""A forgotten password, on a server that can send e-mail."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from django.core import mail
from django.test import Client

from llamaweb.accounts.models import AuditAction, AuditEvent, User
from tests.accounts.people import PASSWORD, fresh_address, signed_in

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.accounts.urls_with_mail")]
ADDRESS = "alice@example.org"


@pytest.fixture
def client() -> Client:
    return Client(REMOTE_ADDR=fresh_address())


@pytest.fixture(autouse=True)
def _address(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(email=ADDRESS)


def test_a_link_by_mail_sets_a_new_password(client: Client, alice: User) -> None:
    assert "/accounts/password/reset/" in client.get("/accounts/login/").content.decode()
    device = signed_in("alice")
    response = client.post("/accounts/password/reset/", {"email": ADDRESS})
    assert response["Location"] == "/accounts/password/reset/done/"
    assert client.get(response["Location"]).status_code == 200
    found = re.search(r"https?://\S+/accounts/password/reset/key/\S+", str(mail.outbox[0].body))
    assert found is not None
    form = client.get(urlsplit(found[0]).path)["Location"]
    assert client.get(form).status_code == 200
    body = {"password1": PASSWORD, "password2": PASSWORD}
    done = client.post(form, body)["Location"]
    assert client.get(done).status_code == 200
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)
    assert "_auth_user_id" not in client.session
    assert device.get("/accounts/2fa/").status_code == 302
    assert AuditEvent.objects.filter(action=AuditAction.USER_PASSWORD_CHANGED).count() == 1
    again = Client().get(urlsplit(found[0]).path)
    assert "no longer valid" in again.content.decode()


def test_an_unknown_address_looks_the_same(client: Client) -> None:
    response = client.post("/accounts/password/reset/", {"email": "nobody@example.org"})
    assert response["Location"] == "/accounts/password/reset/done/"
    assert mail.outbox == []
