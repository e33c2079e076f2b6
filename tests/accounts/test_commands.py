"""What the console does to users is written down, too."""

from __future__ import annotations

import getpass
from collections.abc import Iterator

import pytest
from django.core.management import CommandError, call_command

from llamaweb.accounts.models import AuditAction, AuditEvent, User
from tests.accounts.people import PASSWORD, signed_in

pytestmark = pytest.mark.django_db


def type_in(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    typed: Iterator[str] = iter(answers)
    monkeypatch.setattr(getpass, "getpass", lambda _prompt: next(typed))


def test_createsuperuser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    call_command("createsuperuser", "--noinput", "--username", "root", "--email", "", verbosity=0)
    event = AuditEvent.objects.get()
    assert (event.action, event.actor_name) == (AuditAction.USER_CREATED, "")
    assert (event.detail["username"], event.detail["is_superuser"]) == ("root", True)


def test_changepassword(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    device = signed_in("alice")
    type_in(monkeypatch, "short", "short", PASSWORD, "other", PASSWORD, PASSWORD)
    call_command("changepassword", "alice")
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)
    assert AuditEvent.objects.filter(action=AuditAction.USER_PASSWORD_CHANGED).count() == 1
    assert device.get("/accounts/2fa/").status_code == 302


def test_changepassword_gives_up(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, *["1"] * 6)
    with pytest.raises(CommandError):
        call_command("changepassword", "alice")
    with pytest.raises(CommandError):
        call_command("changepassword", "nobody")
    assert not AuditEvent.objects.exists()
