"""Conversations: metadata, and deleting."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from conversations.models import Conversation
from conversations.services import conversations
from llamaweb.accounts.models import AuditEvent, User

pytestmark = pytest.mark.django_db
BASE = "/admin/conversations/conversation/"


@pytest.fixture
def conversation(alice: User) -> Conversation:
    return conversations.conversation_create(user=alice, title="my illness")


def test_the_title_is_not_even_read(admin: Client, conversation: Conversation) -> None:
    for url in (BASE, f"{BASE}{conversation.pk}/change/", f"{BASE}{conversation.pk}/delete/"):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            page = admin.get(url).content.decode()
        assert conversation.pk in page
        assert "illness" not in page
        read = [q["sql"] for q in queries if '"conversations_conversation"."title"' in q["sql"]]
        assert read == []


@pytest.mark.parametrize("way", ["one", "chosen"])
@pytest.mark.parametrize("is_active", [True, False])
def test_deleting(
    admin: Client, conversation: Conversation, alice: User, way: str, is_active: bool
) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=is_active)
    for _ in range(2):
        if way == "one":
            admin.post(f"{BASE}{conversation.pk}/delete/", {"post": "yes"})
        else:
            form: dict[str, Any] = {"action": "delete_selected", "post": "yes"}
            admin.post(BASE, form | {"_selected_action": [conversation.pk]})
    conversation.refresh_from_db()
    assert conversation.deleted_at is not None
    (event,) = AuditEvent.objects.filter(action="conversation.deleted")
    assert (event.actor_name, event.object_id) == ("root", conversation.pk)
    assert "illness" not in str(event.detail)


def test_nothing_is_made_or_changed(admin: Client, conversation: Conversation) -> None:
    assert admin.get(f"{BASE}add/").status_code == 403
    assert admin.post(f"{BASE}{conversation.pk}/change/", {"title": "x"}).status_code == 403
