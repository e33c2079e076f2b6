"""Who is behind a live connection, and whether they still may be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asgiref.sync import ThreadSensitiveContext
from django.contrib.auth import get_user, get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db import connections
from django.http import HttpRequest
from django.utils import timezone

from conversations.feed import feed_revisions
from llamaweb.accounts.database import in_database
from llamaweb.lib.session_key import is_session_key

if TYPE_CHECKING:
    from llamaweb.accounts.models import User


@dataclass(frozen=True, slots=True)
class SignIn:
    """A signed-in browser. `password`: the stored hash, which changes with the password."""

    user: User
    session_key: str
    password: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What the database says about all who are connected."""

    session_keys: frozenset[str]
    passwords: Mapping[int, str]  # of active users
    feed_revisions: Mapping[int, int]

    def holds(self, sign_in: SignIn) -> bool:
        """Whether the sign-in still stands."""
        return (
            sign_in.session_key in self.session_keys
            and self.passwords.get(sign_in.user.pk) == sign_in.password
        )


def sign_in_read(session_key: str) -> SignIn | None:
    """Who signed in with this session; None: nobody, or not any more."""
    if not is_session_key(session_key) or not _living_sessions([session_key]):
        return None
    request = HttpRequest()
    request.session = SessionStore(session_key)
    user = get_user(request)
    if not user.is_authenticated or not user.is_active:
        return None
    return SignIn(user, session_key, user.password)


async def sign_in(session_key: str) -> SignIn | None:
    """`sign_in_read` in a thread of its own, that leaves nothing behind."""
    async with ThreadSensitiveContext():
        return await in_database(_read_and_close)(session_key)


def _read_and_close(session_key: str) -> SignIn | None:
    try:
        return sign_in_read(session_key)
    finally:
        connections.close_all()


def facts_read(session_keys: Collection[str], user_ids: Collection[int]) -> Facts:
    """Three queries, however many there are."""
    users = get_user_model().objects.filter(pk__in=user_ids, is_active=True)
    return Facts(
        session_keys=_living_sessions(session_keys),
        passwords=dict(users.values_list("pk", "password")),
        feed_revisions=feed_revisions(user_ids),
    )


def _living_sessions(keys: Collection[str]) -> frozenset[str]:
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    return frozenset(rows.values_list("session_key", flat=True))
