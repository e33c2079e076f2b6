"""Acts of one person at the same moment."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from llamaweb.accounts import invite_services, password_services
from llamaweb.accounts.invite_services import invite_create
from llamaweb.accounts.models import Invite, User
from llamaweb.lib.errors import InvalidError
from tests.accounts.people import PASSWORD, fresh_address, side_by_side, signed_in

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("both_databases")]


@pytest.mark.parametrize(
    ("others", "statuses"), [(PASSWORD, [204, 204]), (PASSWORD + "!", [204, 400])]
)
def test_two_password_changes_leave_the_browser_signed_in(
    others: str, statuses: list[int], alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = signed_in("alice", REMOTE_ADDR=fresh_address())
    barrier = threading.Barrier(2)
    check = password_services.password_check

    def together(**values: Any) -> bool:
        is_right = check(**values)
        barrier.wait(10)
        return is_right

    def change(new: str) -> Any:
        client = Client(REMOTE_ADDR=fresh_address())
        client.cookies = mine.cookies.copy()
        return client.post(
            "/api/app/password",
            json.dumps({"current": "password", "new": new}),
            content_type="application/json",
        )

    monkeypatch.setattr(password_services, "password_check", together)
    responses = side_by_side([lambda new=new: change(new) for new in (PASSWORD, others)])
    assert sorted(response.status_code for response in responses) == statuses
    told = [r.cookies[settings.SESSION_COOKIE_NAME] for r in responses if r.cookies]
    assert len(told) == 1
    mine.cookies[settings.SESSION_COOKIE_NAME] = told[0].value
    assert mine.get("/api/app/sessions").status_code == 200


def test_invites_side_by_side_keep_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invite_services, "MAX_OPEN_INVITES", 1)

    def invite() -> bool:
        try:
            invite_create(actor=None)
        except InvalidError:
            return False
        return True

    assert sorted(side_by_side([invite] * 4)) == [False, False, False, True]
    assert Invite.objects.count() == 1
