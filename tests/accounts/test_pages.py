"""The account pages: what they show in both languages, where they lead, what they refuse."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import pytest
from django.http import HttpResponse
from django.test import Client

from llamaweb.accounts.models import User
from llamaweb.accounts.setup_services import setup_link_create
from tests.accounts.people import PASSWORD, confirm, signed_in
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

SIGNED_OUT = {
    "/accounts/login/": (200, "Sign in", "Anmelden"),
    "/accounts/signup/": (403, "Sign-up is closed", "Die Registrierung ist geschlossen"),
    "/accounts/inactive/": (200, "switched off", "abgeschaltet"),
    "/setup/wrong/": (404, "no longer valid", "gilt nicht mehr"),
    "/nowhere/at/all": (404, "nothing here", "Hier ist nichts"),
}
SIGNED_IN = {
    "/accounts/logout/": ("Sign out", "Abmelden"),
    "/accounts/password/change/": ("Change the password", "Passwort ändern"),
    "/accounts/2fa/": ("Authenticator app", "Authenticator-App"),
    "/accounts/2fa/totp/activate/": ("Scan this picture", "Dieses Bild"),
    "/accounts/sessions/": ("This one", "Dieses Gerät"),
    "/accounts/reauthenticate/": ("Is it you?", "Kurze Rückfrage"),
}
INLINE = re.compile(r"<[^>]+\s(?:style|on\w+)=|<script(?![^>]*nonce)|<style", re.IGNORECASE)


def read(client: Client, path: str, language: str) -> tuple[HttpResponse, str]:
    response = client.get(path, headers={"Accept-Language": language})
    text = response.content.decode()
    assert f'<html lang="{language}"' in text
    assert not INLINE.search(text)  # the policy would stop it
    assert "unsafe" not in response["Content-Security-Policy"]
    return response, text


@pytest.mark.parametrize("path", SIGNED_OUT)
def test_signed_out_pages(path: str) -> None:
    status, english, german = SIGNED_OUT[path]
    for language, expected in (("en", english), ("de", german)):
        response, text = read(Client(), path, language)
        assert response.status_code == status
        assert expected in text


@pytest.mark.parametrize("path", SIGNED_IN)
def test_signed_in_pages(path: str, alice: User) -> None:
    client = signed_in("alice")
    confirm(client)
    for language, expected in zip(("en", "de"), SIGNED_IN[path], strict=True):
        response, text = read(client, path, language)
        assert response.status_code == 200
        assert expected in text


def test_the_setup_page_speaks_both_languages() -> None:
    link = setup_link_create()
    assert link is not None
    path = "/" + link.split("/", 3)[3]
    assert "tiny demo" in read(Client(), path, "en")[1]
    assert "winzige Demo" in read(Client(), path, "de")[1]


@pytest.mark.parametrize("path", [path for path in SIGNED_IN if "logout" not in path])
def test_they_need_a_login(path: str) -> None:
    response = Client().get(path)
    assert response.status_code == 302
    assert unquote(response["Location"]).startswith(f"/accounts/login/?next={path}")


def test_the_theme_is_the_users(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(theme="dark")
    page = signed_in("alice").get("/accounts/2fa/").content.decode()
    assert 'data-theme="dark"' in page
    assert "data-theme" not in Client().get("/accounts/login/").content.decode()


def test_wrong_name_and_wrong_password_look_alike(alice: User) -> None:
    def page(name: str) -> str:
        form = {"login": name, "password": "wrong"}
        text = Client().post("/accounts/login/", form).content.decode()
        return re.sub(r'nonce="[^"]*"|csrfmiddlewaretoken" value="[^"]*"', "", text).replace(
            name, ""
        )

    assert page("alice") == page("nobody")


def test_an_inactive_user_looks_like_a_wrong_password(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    response = Client().post("/accounts/login/", {"login": "alice", "password": "password"})
    assert response.status_code == 200
    assert "not correct" in response.content.decode()


@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("/admin/", "/admin/"),
        ("/c/abc?x=1", "/c/abc?x=1"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("http://localhost/", "/"),  # a host of ours, but not the one that was asked
        ("javascript:alert(1)", "/"),
    ],
)
def test_login_leads_to_our_own_pages_only(alice: User, target: str, location: str) -> None:
    form = {"login": "alice", "password": "password", "next": target}
    assert Client().post("/accounts/login/", form)["Location"] == location
    path = f"/accounts/logout/?next={target}"
    if location == "/":
        assert signed_in("alice").post(path)["Location"] == "/accounts/login/"


def test_logout_is_a_post(alice: User) -> None:
    client = signed_in("alice")
    assert client.get("/accounts/logout/").status_code == 200
    assert "_auth_user_id" in client.session
    assert client.post("/accounts/logout/").status_code == 302
    assert "_auth_user_id" not in client.session


def test_forms_need_our_own_page(alice: User) -> None:
    client = Client(enforce_csrf_checks=True)
    for path in ("/accounts/login/", "/accounts/logout/"):
        assert client.post(path, {"login": "alice", "password": "password"}).status_code == 403


def test_the_administration_uses_the_same_login(alice: User) -> None:
    response = Client().get("/admin/", follow=True)
    assert response.redirect_chain[-1][0].startswith("/accounts/login/?next=")
    UserFactory.create(username="root", is_staff=True, is_superuser=True)
    form: dict[str, Any] = {"username": "root", "password": "password"}
    client = Client()
    assert client.post("/admin/login/", form).status_code == 302  # not a way around
    assert "_auth_user_id" not in client.session
    assert signed_in("root").get("/admin/").status_code == 200
    assert signed_in("alice").get("/admin/", follow=True).status_code == 403


def test_without_mail_an_administrator_is_named() -> None:
    page = Client().get("/accounts/login/").content.decode()
    assert "An administrator can give you a new one" in page
    assert Client().get("/accounts/password/reset/").status_code == 404


def test_changing_the_password_on_the_page(alice: User) -> None:
    client, other = signed_in("alice"), signed_in("alice")
    form = {"oldpassword": "password", "password1": PASSWORD, "password2": PASSWORD}
    wrong = client.post("/accounts/password/change/", form | {"oldpassword": "wrong"})
    assert wrong.status_code == 200
    assert client.post("/accounts/password/change/", form).status_code == 302
    assert client.get("/accounts/2fa/").status_code == 200
    assert other.get("/accounts/2fa/").status_code == 302
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)


def test_devices_can_be_signed_out_on_the_page(alice: User) -> None:
    client, other = signed_in("alice"), signed_in("alice")
    assert client.post("/accounts/sessions/").status_code == 302
    assert client.get("/accounts/sessions/").status_code == 200
    assert other.get("/accounts/sessions/").status_code == 302
