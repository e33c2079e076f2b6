"""The admin shows keys without their secret and the audit log for reading only."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from llamaweb.accounts.models import ApiKey, AuditAction, AuditEvent
from tests.factories import UserFactory, make_key

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> Client:
    client = Client()
    client.force_login(UserFactory.create(username="root", is_staff=True, is_superuser=True))
    return client


def test_a_key_is_shown_without_its_digest(admin: Client, alice: Any) -> None:
    make_key(alice, name="laptop")
    key = ApiKey.objects.get()
    for address in ("/admin/accounts/apikey/", f"/admin/accounts/apikey/{key.pk}/change/"):
        page = admin.get(address).content.decode()
        assert "laptop" in page
        assert key.digest not in page


def test_revoking_keys_is_written_down(admin: Client, alice: Any) -> None:
    make_key(alice)
    key = ApiKey.objects.get()
    form = {"action": "revoke", "_selected_action": [key.pk]}
    admin.post("/admin/accounts/apikey/", form)
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert AuditEvent.objects.get(action=AuditAction.API_KEY_REVOKED).actor_name == "root"


def test_audit_events_can_only_be_read(admin: Client, alice: Any) -> None:
    make_key(alice, name="laptop")
    event = AuditEvent.objects.get()
    base = "/admin/accounts/auditevent/"
    assert admin.get(base).status_code == 200
    assert "laptop" in admin.get(f"{base}{event.pk}/change/").content.decode()
    assert admin.post(f"{base}{event.pk}/change/", {"action": "x"}).status_code == 403
    assert admin.post(f"{base}{event.pk}/delete/", {"post": "yes"}).status_code == 403
    assert admin.get(f"{base}add/").status_code == 403


def test_users_are_edited_as_usual(admin: Client, alice: Any) -> None:
    assert admin.get(f"/admin/accounts/user/{alice.pk}/change/").status_code == 200
