"""Who may sign up: nobody, whoever has an invite, everybody."""

from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import time_machine
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from llamaweb.accounts.invite_services import invite_create, invite_revoke
from llamaweb.accounts.models import AuditAction, AuditEvent, Invite, User
from llamaweb.accounts.site_services import signup_mode_set
from llamaweb.lib.errors import InvalidError
from tests.accounts.people import PASSWORD, fresh_address, side_by_side

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("both_databases")]
FORM = {"username": "dora", "password1": PASSWORD, "password2": PASSWORD}
NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


def sign_up(token: str = "", **changes: Any) -> HttpResponse:
    client = Client(REMOTE_ADDR=fresh_address())
    return client.post("/accounts/signup/", FORM | {"invite": token} | changes)


def new_invite(**options: Any) -> tuple[Invite, str]:
    invite, link = invite_create(actor=None, **options)
    return invite, parse_qs(urlsplit(link).query)["invite"][0]


def test_closed_at_first() -> None:
    page = Client().get("/accounts/signup/")
    assert page.status_code == 403
    assert "Ask an administrator" in page.content.decode()
    assert sign_up(new_invite()[1]).status_code == 403
    assert not User.objects.exists()
    assert "/accounts/signup/" not in Client().get("/accounts/login/").content.decode()


def test_open() -> None:
    signup_mode_set(mode="open", actor=None)
    assert "/accounts/signup/" in Client().get("/accounts/login/").content.decode()
    response = sign_up()
    assert (response.status_code, response["Location"]) == (302, "/")
    user = User.objects.get()
    assert (user.is_staff, user.is_superuser, user.is_active) == (False, False, True)
    assert user.check_password(PASSWORD)
    assert AuditEvent.objects.get(action=AuditAction.USER_CREATED).actor_name == "dora"


def test_the_switch_is_written_down_once(alice: User) -> None:
    assert signup_mode_set(mode="invite", actor=alice)
    assert not signup_mode_set(mode="invite", actor=alice)
    event = AuditEvent.objects.get(action=AuditAction.SITE_SETTINGS_CHANGED)
    assert (event.detail["before"], event.detail["after"]) == ("closed", "invite")
    with pytest.raises(InvalidError):
        signup_mode_set(mode="ajar", actor=alice)


def test_by_invite() -> None:
    signup_mode_set(mode="invite", actor=None)
    invite, token = new_invite(note="for dora")
    assert Client().get("/accounts/signup/").status_code == 403
    page = Client().get("/accounts/signup/", {"invite": token})
    assert page.status_code == 200
    assert token in page.content.decode()
    assert sign_up(token, password2="other").status_code == 200  # not used up by a bad form
    assert sign_up(token).status_code == 302
    invite.refresh_from_db()
    assert invite.used_by is not None
    assert invite.used_by.username == "dora"
    assert sign_up(token, username="emil").status_code == 403
    assert AuditEvent.objects.get(action=AuditAction.INVITE_USED).detail["note"] == "for dora"


@pytest.mark.parametrize("how", ["expired", "revoked", "made up"])
def test_a_worthless_invite(how: str) -> None:
    signup_mode_set(mode="invite", actor=None)
    invite, token = new_invite()
    if how == "expired":
        Invite.objects.filter(pk=invite.pk).update(expires_at=timezone.now())
    elif how == "revoked":
        assert invite_revoke(invite=invite, actor=None)
        assert not invite_revoke(invite=invite, actor=None)
    else:
        token = token[:-1] + "!"
    response = sign_up(token)
    assert response.status_code == 403
    assert "no longer valid" in response.content.decode()
    assert not User.objects.exists()


def test_two_with_one_invite_make_one_account() -> None:
    signup_mode_set(mode="invite", actor=None)
    token = new_invite()[1]
    names = ("emil", "fred", "gina")
    jobs = [lambda name=name: sign_up(token, username=name).status_code for name in names]
    assert sorted(side_by_side(jobs)) == [302, 403, 403]
    assert User.objects.count() == 1


def test_two_with_one_name_make_one_account() -> None:
    signup_mode_set(mode="open", actor=None)
    jobs = [lambda: sign_up().status_code for _ in range(3)]
    assert sorted(side_by_side(jobs)) == [200, 200, 302]


def test_names_differ_in_more_than_case() -> None:
    signup_mode_set(mode="open", actor=None)
    assert sign_up().status_code == 302
    assert sign_up(username="Dora").status_code == 200


@time_machine.travel(NOW, tick=False)
@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"note": "x" * 201}, "note"),
        ({"expires_at": NOW}, "expires_at"),
        ({"expires_at": NOW + dt.timedelta(days=366)}, "expires_at"),
    ],
)
def test_bounds_of_an_invite(options: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidError) as caught:
        invite_create(actor=None, **options)
    assert caught.value.param == param


def test_an_invite_is_kept_as_a_digest_only() -> None:
    token = new_invite()[1]
    assert token not in str(list(Invite.objects.values()))
    assert token not in str(list(AuditEvent.objects.values()))
