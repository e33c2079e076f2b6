"""Noting that a session was used costs pages one write and everything else nothing."""

from __future__ import annotations

import datetime as dt

import pytest
from allauth.usersessions.models import UserSession
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from llamaweb.accounts.models import User
from tests.accounts.people import signed_in

pytestmark = pytest.mark.django_db
READS = ("SELECT", "SAVEPOINT", "RELEASE")


def test_a_page_notes_the_session(alice: User) -> None:
    client = signed_in("alice")
    before = timezone.now() - dt.timedelta(days=1)
    UserSession.objects.update(last_seen_at=before)
    with CaptureQueriesContext(connection) as queries:
        client.get("/accounts/logout/")
    assert UserSession.objects.get().last_seen_at > before
    assert len([query for query in queries if not query["sql"].startswith(READS)]) == 1


@pytest.mark.parametrize("path", ["/api/app/keys", "/v1/models", "/static/nothing.js"])
def test_anything_else_does_not(alice: User, path: str) -> None:
    client = signed_in("alice")
    before = timezone.now() - dt.timedelta(days=1)
    UserSession.objects.update(last_seen_at=before)
    with CaptureQueriesContext(connection) as queries:
        client.get(path)
    assert UserSession.objects.get().last_seen_at == before
    assert not [query for query in queries if not query["sql"].startswith("SELECT")]
