"""`manage.py create_api_key` and `createsuperuser --noinput`."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from llamaweb.accounts.models import ApiKey, AuditEvent, User
from llamaweb.accounts.selectors import api_key_authenticate

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("create_api_key", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_the_key_stands_alone_on_the_last_line(alice: Any) -> None:
    out, err = run("alice", "--name", "laptop")
    raw = out.splitlines()[-1]
    assert out == raw + "\n"
    assert raw not in err
    assert api_key_authenticate(raw).user == alice
    assert AuditEvent.objects.get().detail["name"] == "laptop"


def test_scopes_models_and_expiry(alice: Any) -> None:
    options = ("--scope", "models:read", "--scope", "admin", "--model", "tiny", "--expires", "2")
    run("alice", "--name", "n", *options)
    key = ApiKey.objects.get()
    assert key.scopes == ["admin", "models:read"]
    assert key.model_names == ["tiny"]
    assert key.expires_at is not None
    assert dt.timedelta(days=1) < key.expires_at - timezone.now() <= dt.timedelta(days=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody", "--name", "n"), "no user 'nobody'"),
        (("alice",), "--name"),
        (("alice", "--name", "n", "--scope", "root"), "--scope"),
        (("alice", "--name", "n", "--expires", "0"), "1 to 36500"),
        (("alice", "--name", "n", "--expires", "99999999999"), "1 to 36500"),
    ],
)
def test_mistakes_are_named(alice: Any, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        run(*arguments)
    assert not ApiKey.objects.exists()


def test_createsuperuser_without_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_USERNAME", "root")
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "a long password 1")
    monkeypatch.setenv("DJANGO_SUPERUSER_EMAIL", "")
    call_command("createsuperuser", "--noinput", stdout=io.StringIO())
    user = User.objects.get(username="root")
    assert user.is_superuser
    assert user.check_password("a long password 1")
