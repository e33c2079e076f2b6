"""The second factor, from switching it on to being asked for it."""

from __future__ import annotations

import secrets
import time

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.test import Client

from llamaweb.accounts.models import AuditAction, AuditEvent, User
from llamaweb.accounts.site_services import second_factor_for_staff_set
from tests.accounts.people import confirm, signed_in
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db
PERIOD_S = 30
FORM = {"login": "alice", "password": "password"}


@pytest.fixture
def alice(db: None) -> User:
    """With an id of her own: codes that were used or wrong are counted by it, across tests."""
    return UserFactory.create(username="alice", pk=secrets.randbelow(2**40))


def code(secret: str, periods: int = 0) -> str:
    return format_hotp_value(hotp_value(secret, int(time.time()) // PERIOD_S + periods))


def switch_on(client: Client) -> str:
    """Returns the secret."""
    confirm(client)
    client.get("/accounts/2fa/totp/activate/")
    secret = str(client.session["mfa.totp.secret"])
    response = client.post("/accounts/2fa/totp/activate/", {"code": code(secret)})
    assert (response.status_code, response["Location"]) == (302, "/accounts/2fa/recovery-codes/")
    return secret


def half_way() -> Client:
    """Alice has given her password and is asked for a code."""
    client = Client()
    response = client.post("/accounts/login/?next=/c/1", FORM)
    assert response["Location"] == "/accounts/2fa/authenticate/"
    assert "_auth_user_id" not in client.session
    return client


def give(client: Client, value: str) -> int:
    status: int = client.post("/accounts/2fa/authenticate/", {"code": value}).status_code
    return status


def test_login_with_a_code(alice: User) -> None:
    with time_machine.travel(1_900_000_000, tick=False) as clock:
        secret = switch_on(signed_in("alice"))
        clock.shift(5 * PERIOD_S)
        client = half_way()
        assert client.get("/accounts/2fa/totp/activate/").status_code == 302  # not signed in yet
        assert give(client, "000000") == 200
        right = code(secret)
        assert give(client, right) == 302
        assert client.session["_auth_user_id"] == str(alice.pk)
        assert give(half_way(), right) == 200  # a code works once


def test_login_with_a_recovery_code(alice: User) -> None:
    client = signed_in("alice")
    switch_on(client)
    page = client.get("/accounts/2fa/recovery-codes/").content.decode()
    codes = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()
    assert codes[0] in page
    assert give(half_way(), codes[0]) == 302
    assert give(half_way(), codes[0]) == 200


def test_codes_can_not_be_guessed_freely(alice: User) -> None:
    with time_machine.travel(1_900_100_000, tick=False) as clock:
        secret = switch_on(signed_in("alice"))
        clock.shift(5 * PERIOD_S)
        client = half_way()
        for _ in range(5):
            give(client, "000000")
        assert give(client, code(secret)) == 200


def test_it_is_written_down(alice: User) -> None:
    client = signed_in("alice", REMOTE_ADDR="192.0.2.5")
    switch_on(client)
    event = AuditEvent.objects.get(action=AuditAction.SECOND_FACTOR_ADDED)
    assert (event.actor_name, event.object_id, event.address) == (
        "alice",
        str(alice.pk),
        "192.0.2.5",
    )
    assert client.get("/accounts/2fa/totp/deactivate/").status_code == 200
    assert client.post("/accounts/2fa/totp/deactivate/").status_code == 302
    assert AuditEvent.objects.filter(action=AuditAction.SECOND_FACTOR_REMOVED).count() == 1
    assert signed_in("alice").get("/accounts/2fa/").status_code == 200


def test_switching_it_on_asks_for_the_password_again(alice: User) -> None:
    with time_machine.travel(1_900_200_000, tick=False) as clock:
        client, path = signed_in("alice"), "/accounts/2fa/totp/activate/"
        response = client.get(path)
        assert response["Location"].startswith("/accounts/reauthenticate/")
        assert client.post(response["Location"], {"password": "wrong"}).status_code == 200
        assert client.post(response["Location"], {"password": "password"})["Location"] == path
        assert client.get(path).status_code == 200
        clock.shift(3600)
        assert client.get(path).status_code == 302


@pytest.mark.parametrize("language", ["en", "de"])
def test_its_pages_speak_both_languages(alice: User, language: str) -> None:
    client = signed_in("alice")
    switch_on(client)
    expected = {
        "/accounts/2fa/": ("Switch off", "Ausschalten"),
        "/accounts/2fa/totp/deactivate/": ("Switch off the", "Zweiten Faktor ausschalten"),
        "/accounts/2fa/recovery-codes/": ("Recovery codes", "Wiederherstellungscodes"),
        "/accounts/2fa/recovery-codes/generate/": ("stop working", "gelten dann nicht mehr"),
        "/accounts/2fa/reauthenticate/": ("recovery code", "Wiederherstellungscode"),
    }
    for path, texts in expected.items():
        page = client.get(path, headers={"Accept-Language": language})
        assert page.status_code == 200
        assert texts[language == "de"] in page.content.decode()
    page = half_way().get("/accounts/2fa/authenticate/", headers={"Accept-Language": language})
    assert ("Second factor", "Zweiter Faktor")[language == "de"] in page.content.decode()


def test_the_administration_can_require_it(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True, is_superuser=True)
    client = signed_in("alice")
    assert client.get("/admin/").status_code == 200
    second_factor_for_staff_set(is_required=True, actor=alice)
    response = client.get("/admin/", follow=True)
    chain = [address for address, _status in response.redirect_chain]
    assert "/accounts/2fa/totp/activate/" in chain
    assert "needs a second factor" in response.content.decode()
    assert client.get("/admin/accounts/user/").status_code == 302
    switch_on(client)
    assert client.get("/admin/").status_code == 200


def test_others_need_none(alice: User) -> None:
    second_factor_for_staff_set(is_required=True, actor=None)
    UserFactory.create(username="dora")
    assert signed_in("dora").get("/accounts/2fa/").status_code == 200
