"""The link that makes the first administrator: once, for an hour, and only one."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any
from urllib.parse import urlsplit

import pytest
import time_machine
from django.core.management import call_command
from django.http import HttpResponse
from django.test import Client

from llamaweb.accounts import throttle
from llamaweb.accounts.models import AuditAction, AuditEvent, SetupLink, User
from llamaweb.accounts.setup_services import SETUP_LINK_LIFE, setup_link_create
from tests.accounts.people import PASSWORD, fresh_address, side_by_side
from tests.factories import UserFactory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("both_databases")]
FORM = {"username": "root", "password1": PASSWORD, "password2": PASSWORD}
BEGIN = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


def new_path() -> str:
    link = setup_link_create()
    assert link is not None
    return urlsplit(link).path


def submit(path: str, **changes: Any) -> HttpResponse:
    return Client().post(path, FORM | changes)


def test_the_first_administrator_lands_in_the_chat() -> None:
    path, client = new_path(), Client(REMOTE_ADDR="192.0.2.5")
    page = client.get(path)
    assert page.status_code == 200
    assert "GGUF" in page.content.decode()
    assert page["Referrer-Policy"] == "same-origin"
    assert "no-store" in page["Cache-Control"]
    response = client.post(path, FORM)
    assert (response.status_code, response["Location"]) == (302, "/")
    user = User.objects.get()
    assert (user.username, user.is_staff, user.is_superuser) == ("root", True, True)
    assert client.session["_auth_user_id"] == str(user.pk)
    event = AuditEvent.objects.get(action=AuditAction.SETUP_COMPLETED)
    assert (event.actor_name, event.address) == ("root", "192.0.2.5")


def test_a_link_works_once() -> None:
    path = new_path()
    assert submit(path).status_code == 302
    for response in (Client().get(path), submit(path, username="second")):
        assert response.status_code == 404
    assert User.objects.count() == 1


def test_a_link_lives_for_an_hour() -> None:
    with time_machine.travel(BEGIN, tick=False) as clock:
        path = new_path()
        clock.shift(SETUP_LINK_LIFE - dt.timedelta(seconds=1))
        assert Client().get(path).status_code == 200
        clock.shift(dt.timedelta(seconds=1))
        assert Client().get(path).status_code == 404
        assert submit(path).status_code == 404
    assert not User.objects.exists()


def test_a_new_link_ends_the_one_before() -> None:
    old, new = new_path(), new_path()
    assert submit(old).status_code == 404
    assert submit(new).status_code == 302


def test_bad_forms_leave_the_link_usable() -> None:
    UserFactory.create(username="taken")
    path = new_path()
    for changes in (
        {"password2": "other"},
        {"password1": "12345678", "password2": "12345678"},
        {"username": "taken"},
        {"username": "a b"},
        {"username": ""},
    ):
        assert submit(path, **changes).status_code == 200
    assert submit(path).status_code == 302


def test_there_is_no_link_when_somebody_administers() -> None:
    path = new_path()
    UserFactory.create(is_superuser=True)
    assert submit(path).status_code == 404
    assert setup_link_create() is None
    assert not SetupLink.objects.exists()


def test_an_inactive_administrator_does_not_count() -> None:
    UserFactory.create(is_superuser=True, is_active=False)
    assert submit(new_path()).status_code == 302


def test_two_submits_make_one_administrator() -> None:
    path = new_path()
    names = ("one", "two", "three")
    jobs = [lambda name=name: submit(path, username=name).status_code for name in names]
    assert sorted(side_by_side(jobs)) == [302, 404, 404]
    assert User.objects.filter(is_superuser=True).count() == 1


def test_the_token_is_kept_nowhere() -> None:
    token = new_path().split("/")[2]
    assert token not in str(list(SetupLink.objects.values()))
    assert token not in str(list(AuditEvent.objects.values()))


def test_wrong_links_are_throttled_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "WRONG_SETUP_LINKS", 2)
    path = new_path()
    client = Client(REMOTE_ADDR=fresh_address())
    assert [client.get("/setup/wrong/").status_code for _ in range(3)] == [404, 404, 429]
    assert client.get(path).status_code == 200  # a right one is never refused for wrong ones
    assert Client(REMOTE_ADDR=fresh_address()).get("/setup/wrong/").status_code == 404


def test_the_command_prints_the_link_or_nothing() -> None:
    out, err = io.StringIO(), io.StringIO()
    call_command("setup_link", stdout=out, stderr=err)
    assert submit(urlsplit(out.getvalue().strip()).path).status_code == 302
    out = io.StringIO()
    call_command("setup_link", stdout=out, stderr=err)
    assert out.getvalue() == ""
    assert "administrator" in err.getvalue()
