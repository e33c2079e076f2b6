"""What a person changes about their own account through the app's API."""

from __future__ import annotations

import datetime as dt
import json
from importlib import import_module
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from llamaweb.accounts import services, session_services
from llamaweb.accounts.models import ApiKey, AuditAction, AuditEvent, User
from tests.accounts.people import PASSWORD, fresh_address, signed_in
from tests.factories import make_key

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("both_databases")]
BASE = "/api/app"
ADDRESS = "192.0.2.5"


@pytest.fixture
def mine(alice: User) -> Client:
    return signed_in("alice", REMOTE_ADDR=ADDRESS)


def call(client: Client, method: str, path: str, body: Any = None, **headers: Any) -> HttpResponse:
    content = "" if body is None else json.dumps(body)
    return client.generic(
        method, f"{BASE}/{path}", content, content_type="application/json", headers=headers
    )


def store_has(session_key: str) -> bool:
    store = import_module(settings.SESSION_ENGINE).SessionStore
    return bool(store(session_key).load())


class TestPreferences:
    def test_change_one_leave_the_other(self, mine: Client, alice: User) -> None:
        assert call(mine, "PATCH", "preferences", {"theme": "dark"}).json() == {
            "theme": "dark",
            "language": "",
        }
        response = call(mine, "PATCH", "preferences", {"language": "de"})
        assert response.json() == {"theme": "dark", "language": "de"}
        alice.refresh_from_db()
        assert (alice.theme, alice.language) == ("dark", "de")

    def test_pages_follow_the_language(self, mine: Client) -> None:
        call(mine, "PATCH", "preferences", {"language": "de"})
        assert 'lang="de"' in mine.get("/accounts/2fa/").content.decode()
        call(mine, "PATCH", "preferences", {"language": ""})
        assert 'lang="en"' in mine.get("/accounts/2fa/").content.decode()

    def test_a_new_device_learns_the_language(self, mine: Client) -> None:
        call(mine, "PATCH", "preferences", {"language": "de"})
        assert 'lang="de"' in signed_in("alice").get("/accounts/2fa/").content.decode()

    @pytest.mark.parametrize("body", [{"theme": "pink"}, {"language": "xx"}, {"is_staff": True}])
    def test_anything_else_is_refused(self, mine: Client, alice: User, body: Any) -> None:
        assert call(mine, "PATCH", "preferences", body).status_code == 400
        alice.refresh_from_db()
        assert (alice.theme, alice.is_staff) == ("system", False)


class TestKeys:
    def test_make_list_revoke(self, mine: Client, alice: User) -> None:
        made = call(mine, "POST", "keys", {"name": "laptop"})
        assert made.status_code == 201
        secret, key = made.json()["secret"], made.json()["key"]
        assert secret.startswith(key["prefix"])
        assert key["scopes"] == ["inference"]
        models = Client().get("/v1/models", headers={"Authorization": f"Bearer {secret}"})
        assert models.status_code != 401
        listed = call(mine, "GET", "keys")
        assert [item["name"] for item in listed.json()["keys"]] == ["laptop"]
        assert secret not in listed.content.decode()
        assert listed["Cache-Control"] == "no-store"
        assert call(mine, "DELETE", f"keys/{key['id']}").status_code == 204
        assert call(mine, "DELETE", f"keys/{key['id']}").status_code == 204
        assert call(mine, "GET", "keys").json()["keys"][0]["revoked_at"] is not None
        events = AuditEvent.objects.filter(action__startswith="api_key").order_by("id")
        assert [(event.action, event.actor_name, event.address) for event in events] == [
            (AuditAction.API_KEY_CREATED, "alice", ADDRESS),
            (AuditAction.API_KEY_REVOKED, "alice", ADDRESS),
        ]

    def test_others_keys_are_not_there(self, mine: Client, bob: User) -> None:
        make_key(bob)
        key = ApiKey.objects.get()
        assert call(mine, "GET", "keys").json()["keys"] == []
        theirs = call(mine, "DELETE", f"keys/{key.pk}")
        nobodys = call(mine, "DELETE", "keys/999999")
        assert (theirs.status_code, theirs.json()) == (404, nobodys.json())
        key.refresh_from_db()
        assert key.revoked_at is None

    def test_a_key_may_be_for_less(self, mine: Client) -> None:
        body = {"name": "x", "scopes": ["models:read", "embeddings"], "models": ["b", "a"]}
        made = call(mine, "POST", "keys", body).json()["key"]
        assert made["scopes"] == ["embeddings", "models:read"]
        assert made["models"] == ["a", "b"]
        (listed,) = call(mine, "GET", "keys").json()["keys"]
        assert listed == made

    @pytest.mark.parametrize(
        "body",
        [
            {"name": ""},
            {"name": "   "},
            {"name": "x" * 101},
            {"name": "a\x00b"},
            {"name": "x", "expires_at": "2001-01-01T00:00:00Z"},
            {"name": "x", "expires_at": "2101-01-01T00:00:00"},
            {"name": "x", "expires_at": "9999-12-31T23:59:59-23:00"},  # no date in UTC
            {"name": "x", "scopes": ["admin"]},
            {"name": "x", "scopes": ["inference", "models:write"]},
            {"name": "x", "scopes": []},
            {"name": "x", "models": [""]},
            {"name": "x", "models": ["m"] * 101},
        ],
    )
    def test_bad_ones_are_refused(self, mine: Client, body: Any) -> None:
        response = call(mine, "POST", "keys", body)
        assert response.status_code == 400
        assert not ApiKey.objects.exists()

    def test_expiry(self, mine: Client) -> None:
        at = timezone.now() + dt.timedelta(days=1)
        made = call(mine, "POST", "keys", {"name": "x", "expires_at": at.isoformat()})
        assert dt.datetime.fromisoformat(made.json()["key"]["expires_at"]) == at

    def test_there_is_a_bound(self, mine: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(services, "MAX_KEYS_PER_USER", 1)
        assert call(mine, "POST", "keys", {"name": "one"}).status_code == 201
        assert call(mine, "POST", "keys", {"name": "two"}).status_code == 400


class TestPassword:
    def test_change(self, mine: Client, alice: User) -> None:
        other = signed_in("alice")
        other_key = other.session.session_key
        body = {"current": "password", "new": PASSWORD}
        assert call(mine, "POST", "password", body).status_code == 204
        alice.refresh_from_db()
        assert alice.check_password(PASSWORD)
        assert call(mine, "GET", "sessions").json()["sessions"][0]["is_current"]
        assert UserSession.objects.get().session_key == mine.session.session_key
        assert call(other, "GET", "sessions").status_code == 401
        assert not store_has(other_key)
        event = AuditEvent.objects.get(action=AuditAction.USER_PASSWORD_CHANGED)
        assert (event.actor_name, event.address) == ("alice", ADDRESS)

    def test_a_wrong_current_one(self, mine: Client, alice: User) -> None:
        response = call(mine, "POST", "password", {"current": "wrong", "new": PASSWORD})
        assert (response.status_code, response.json()["error"]["param"]) == (400, "current")
        alice.refresh_from_db()
        assert alice.check_password("password")

    def test_guessing_the_current_one_is_bounded(
        self, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mine = signed_in("alice", REMOTE_ADDR=fresh_address())
        monkeypatch.setattr(settings, "LOGIN_RATE", 2)
        statuses = [
            call(mine, "POST", "password", {"current": "wrong", "new": PASSWORD}).status_code
            for _ in range(3)
        ]
        assert statuses == [400, 400, 429]
        right = {"current": "password", "new": PASSWORD}
        assert call(mine, "POST", "password", right).status_code == 429

    def test_a_weak_new_one(self, mine: Client) -> None:
        body = {"current": "password", "new": "12345"}
        error = call(mine, "POST", "password", body).json()["error"]
        assert error["param"] == "new"
        assert "too short" in error["message"]
        german = call(mine, "POST", "password", body, **{"Accept-Language": "de"}).json()["error"]
        assert "zu kurz" in german["message"]


class TestSessions:
    def test_list(self, mine: Client) -> None:
        signed_in("alice", HTTP_USER_AGENT="Phone")
        found = call(mine, "GET", "sessions").json()["sessions"]
        assert [item["is_current"] for item in found] == [True, False]
        assert (found[0]["address"], found[1]["agent"]) == (ADDRESS, "Phone")

    def test_a_session_from_before_is_listed(self, alice: User) -> None:
        client = Client()
        client.force_login(alice)
        assert len(call(client, "GET", "sessions").json()["sessions"]) == 1

    def test_end_one(self, mine: Client) -> None:
        phone, tablet = signed_in("alice"), signed_in("alice")
        phone_key = phone.session.session_key
        chosen = UserSession.objects.get(session_key=phone_key)
        assert call(mine, "DELETE", f"sessions/{chosen.pk}").json() == {"num_ended": 1}
        assert not store_has(phone_key)
        assert call(phone, "GET", "sessions").status_code == 401
        assert call(tablet, "GET", "sessions").status_code == 200
        assert call(mine, "DELETE", f"sessions/{chosen.pk}").status_code == 404
        assert AuditEvent.objects.get(action=AuditAction.SESSIONS_ENDED).actor_name == "alice"

    def test_end_all_others(self, mine: Client) -> None:
        others = [signed_in("alice") for _ in range(2)]
        assert call(mine, "DELETE", "sessions").json() == {"num_ended": 2}
        assert [call(other, "GET", "sessions").status_code for other in others] == [401, 401]
        assert call(mine, "DELETE", "sessions").json() == {"num_ended": 0}

    def test_end_ones_own(self, mine: Client) -> None:
        chosen = UserSession.objects.get()
        assert call(mine, "DELETE", f"sessions/{chosen.pk}").status_code == 200
        assert call(mine, "GET", "sessions").status_code == 401

    def test_others_sessions_are_not_there(self, mine: Client, carol: User) -> None:
        hers = signed_in("carol")
        chosen = UserSession.objects.get(user=carol)
        assert call(mine, "DELETE", f"sessions/{chosen.pk}").status_code == 404
        assert call(mine, "DELETE", "sessions").json() == {"num_ended": 0}
        assert len(call(mine, "GET", "sessions").json()["sessions"]) == 1
        assert call(hers, "GET", "sessions").status_code == 200

    def test_there_is_a_bound(self, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(session_services, "MAX_SESSIONS", 2)
        first, second, third = (signed_in("alice") for _ in range(3))
        statuses = [call(one, "GET", "sessions").status_code for one in (first, second, third)]
        assert statuses == [401, 200, 200]


ROUTES = [
    ("PATCH", "preferences", {"theme": "dark"}),
    ("GET", "keys", None),
    ("POST", "keys", {"name": "x"}),
    ("DELETE", "keys/1", None),
    ("POST", "password", {"current": "password", "new": PASSWORD}),
    ("GET", "sessions", None),
    ("DELETE", "sessions/1", None),
    ("DELETE", "sessions", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_they_need_a_session(alice_key: str, method: str, path: str, body: Any) -> None:
    assert call(Client(), method, path, body).status_code == 401
    with_key = call(Client(), method, path, body, Authorization=f"Bearer {alice_key}")
    assert with_key.status_code == 401


@pytest.mark.parametrize(("method", "path", "body"), [row for row in ROUTES if row[0] != "GET"])
def test_they_need_our_own_page(alice: User, method: str, path: str, body: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    assert call(client, method, path, body).status_code == 403
