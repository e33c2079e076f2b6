"""The audit log: written with the act, never changed, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from llamaweb.accounts.models import ApiKey, AppendOnlyError, AuditAction, AuditEvent
from llamaweb.accounts.services import api_key_create, api_key_revoke, audit_record

pytestmark = [pytest.mark.usefixtures("both_databases"), pytest.mark.django_db]


@pytest.fixture
def event(alice: Any) -> AuditEvent:
    api_key_create(user=alice, name="first", actor=alice, address="192.0.2.1")
    return AuditEvent.objects.get()


def test_the_act_is_written_down(alice: Any, event: AuditEvent) -> None:
    assert event.action == AuditAction.API_KEY_CREATED
    assert (event.actor_id, event.actor_name) == (alice.pk, "alice")
    assert (event.object_type, event.object_id) == ("accounts.apikey", str(ApiKey.objects.get().pk))
    assert event.address == "192.0.2.1"
    assert event.detail == {
        "name": "first",
        "owner": "alice",
        "scopes": ["inference"],
        "model_names": [],
    }


def test_revoking_is_written_down_once(alice: Any) -> None:
    key, _ = api_key_create(user=alice, name="first")
    assert api_key_revoke(key=key, actor=alice) is True
    assert api_key_revoke(key=key, actor=alice) is False
    assert AuditEvent.objects.filter(action=AuditAction.API_KEY_REVOKED).count() == 1


def test_the_model_refuses_every_way_to_change_it(event: AuditEvent) -> None:
    event.actor_name = "mallory"
    for change in (
        event.save,
        event.delete,
        AuditEvent.objects.all().delete,
        lambda: AuditEvent.objects.update(actor_name="mallory"),
        lambda: AuditEvent.objects.bulk_update([event], ["actor_name"]),
    ):
        with pytest.raises(AppendOnlyError):
            change()
    assert AuditEvent.objects.get().actor_name == "alice"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE accounts_auditevent SET actor_name = 'mallory'",
        "DELETE FROM accounts_auditevent",
    ],
)
def test_the_database_refuses_too(event: AuditEvent, statement: str) -> None:
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    assert AuditEvent.objects.get().actor_name == "alice"


def test_act_and_record_share_their_fate(alice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: Any, **_kwargs: Any) -> None:
        raise DatabaseError("no room")

    monkeypatch.setattr(AuditEvent.objects, "create", fail)
    with pytest.raises(DatabaseError, match="no room"), transaction.atomic():
        api_key_create(user=alice, name="first")
    assert not ApiKey.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_record_without_a_transaction_is_refused(alice: Any) -> None:
    with pytest.raises(RuntimeError, match="transaction"):
        audit_record(action=AuditAction.API_KEY_CREATED, actor=alice, target=alice)


def test_deleting_a_user_keeps_their_events(alice: Any, event: AuditEvent) -> None:
    alice.delete()
    assert AuditEvent.objects.get().actor_name == "alice"
