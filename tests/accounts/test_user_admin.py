"""What the admin does to users is written down in the act's transaction, passwords never."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import DatabaseError
from django.test import Client

from llamaweb.accounts.models import ApiKey, AuditAction, AuditEvent, User
from tests.factories import UserFactory, make_key

pytestmark = pytest.mark.django_db
BASE = "/admin/accounts/user/"
PASSWORD = "correct-horse-7"


@pytest.fixture
def root(db: None) -> User:
    return UserFactory.create(username="root", is_staff=True, is_superuser=True)


@pytest.fixture
def admin(root: User) -> Client:
    client = Client(REMOTE_ADDR="192.0.2.5")
    client.force_login(root)
    return client


def form_of(user: User, **changes: Any) -> dict[str, Any]:
    joined = user.date_joined
    form = {
        "username": user.username,
        "is_active": "on",
        "date_joined_0": joined.date().isoformat(),
        "date_joined_1": joined.time().isoformat(),
    } | changes
    return {name: value for name, value in form.items() if value is not None}


def only_event() -> AuditEvent:
    event = AuditEvent.objects.get()
    assert (event.actor_name, event.address) == ("root", "192.0.2.5")
    return event


def test_making_a_user(admin: Client) -> None:
    form = {"username": "dora", "usable_password": "true"}
    form |= {"password1": PASSWORD, "password2": PASSWORD}
    assert admin.post(f"{BASE}add/", form).status_code == 302
    event = only_event()
    assert event.action == AuditAction.USER_CREATED
    assert event.object_id == str(User.objects.get(username="dora").pk)
    assert event.detail["username"] == "dora"
    assert PASSWORD not in json.dumps(event.detail)


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({"is_staff": "on", "is_superuser": "on"}, {"is_staff": True, "is_superuser": True}),
        ({"is_active": None}, {"is_active": False}),
    ],
)
def test_promoting_and_deactivating(
    admin: Client, alice: User, changes: dict[str, Any], changed: dict[str, bool]
) -> None:
    assert admin.post(f"{BASE}{alice.pk}/change/", form_of(alice, **changes)).status_code == 302
    event = only_event()
    assert event.action == AuditAction.USER_CHANGED
    assert event.detail["changed"] == list(changed)
    assert changed.items() <= event.detail.items()


def test_saving_without_a_change_is_no_act(admin: Client, alice: User) -> None:
    assert admin.post(f"{BASE}{alice.pk}/change/", form_of(alice)).status_code == 302
    assert not AuditEvent.objects.exists()


def test_giving_permissions(admin: Client, alice: User) -> None:
    permission = Permission.objects.get(codename="change_apikey")
    form = form_of(alice, user_permissions=[permission.pk])
    assert admin.post(f"{BASE}{alice.pk}/change/", form).status_code == 302
    event = only_event()
    assert event.action == AuditAction.USER_RIGHTS_CHANGED
    assert event.detail["permissions"] == ["accounts.change_apikey"]


def test_a_password_is_written_down_without_itself(admin: Client, alice: User) -> None:
    form = {"usable_password": "true", "password1": PASSWORD, "password2": PASSWORD + "x"}
    assert admin.post(f"{BASE}{alice.pk}/password/", form).status_code == 200
    assert not AuditEvent.objects.exists()
    form["password2"] = PASSWORD
    assert admin.post(f"{BASE}{alice.pk}/password/", form).status_code == 302
    event = only_event()
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)
    assert event.action == AuditAction.USER_PASSWORD_CHANGED
    assert (event.object_id, event.detail["username"]) == (str(alice.pk), "alice")
    written = json.dumps(event.detail)
    assert PASSWORD not in written
    assert alice.password not in written


def test_ones_own_password_is_an_account_page(admin: Client) -> None:
    response = admin.get("/admin/password_change/")
    assert (response.status_code, response["Location"]) == (302, "/accounts/password/change/")
    assert admin.get(response["Location"]).status_code == 200


def test_nobody_elses_password_page(admin: Client) -> None:
    assert admin.get(f"{BASE}999999/password/").status_code == 404


def delete_one(admin: Client, *users: User) -> None:
    for user in users:
        assert admin.post(f"{BASE}{user.pk}/delete/", {"post": "yes"}).status_code == 302


def delete_chosen(admin: Client, *users: User) -> None:
    chosen = [user.pk for user in users]
    form = {"action": "delete_selected", "_selected_action": chosen, "post": "yes"}
    assert admin.post(BASE, form).status_code == 302


@pytest.mark.parametrize("delete", [delete_one, delete_chosen])
def test_a_deleted_user_takes_their_keys_along(
    admin: Client, alice: User, bob: User, delete: Any
) -> None:
    make_key(alice, name="laptop")
    delete(admin, alice, bob)
    assert not User.objects.filter(username__in=("alice", "bob")).exists()
    assert not ApiKey.objects.exists()
    events = AuditEvent.objects.filter(actor_name="root").order_by("id")
    assert [(event.action, event.detail) for event in events] == [
        (AuditAction.API_KEY_DELETED, {"name": "laptop", "owner": "alice"}),
        (AuditAction.USER_DELETED, {"username": "alice"}),
        (AuditAction.USER_DELETED, {"username": "bob"}),
    ]


@pytest.mark.parametrize("delete", [delete_one, delete_chosen])
def test_what_can_not_be_written_down_is_not_done(
    admin: Client, alice: User, delete: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: Any, **_kwargs: Any) -> None:
        raise DatabaseError("no room")

    monkeypatch.setattr(AuditEvent.objects, "create", fail)
    with pytest.raises(DatabaseError, match="no room"):
        delete(admin, alice)
    form = {"usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}
    with pytest.raises(DatabaseError, match="no room"):
        admin.post(f"{BASE}{alice.pk}/password/", form)
    with pytest.raises(DatabaseError, match="no room"):
        admin.post(f"{BASE}{alice.pk}/change/", form_of(alice, is_superuser="on"))
    alice.refresh_from_db()
    assert alice.check_password("password")
    assert not alice.is_superuser


def test_a_key_alone_can_not_be_deleted(admin: Client, alice: User) -> None:
    make_key(alice)
    address = f"/admin/accounts/apikey/{ApiKey.objects.get().pk}/delete/"
    assert admin.post(address, {"post": "yes"}).status_code == 403
