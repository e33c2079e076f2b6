"""Rows of sessions that nobody can use any more go by themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from celery import current_app
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from llamaweb.accounts.models import User
from llamaweb.accounts.tasks import session_purge


@pytest.fixture
def sign_in(alice: User, _redis: None) -> Any:
    def signed_in() -> Client:
        client = Client()
        client.force_login(alice)
        assert client.get("/accounts/sessions/").status_code == 200
        return client

    return signed_in


def test_expired_sessions_and_their_devices_go_and_living_ones_stay(sign_in: Any) -> None:
    old, ended, living = sign_in(), sign_in(), sign_in()
    keys = [client.session.session_key for client in (old, ended, living)]
    yesterday = timezone.now() - timedelta(days=1)
    Session.objects.filter(session_key=keys[0]).update(expire_date=yesterday)
    Session.objects.filter(session_key=keys[1]).delete()
    assert UserSession.objects.count() == 3
    assert session_purge() == 3
    assert Session.objects.get().session_key == keys[2]
    assert UserSession.objects.get().session_key == keys[2]
    assert living.get("/accounts/sessions/").status_code == 200
    assert session_purge() == 0


def test_it_runs_by_itself() -> None:
    entry = settings.CELERY_BEAT_SCHEDULE["session-purge"]
    assert entry["task"] == session_purge.name
    assert entry["task"] in current_app.tasks
