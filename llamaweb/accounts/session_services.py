"""Signed-in devices: which there are, and ending them.

An ended session is gone from the session store (its row) at once, so that neither the next
request nor a live connection finds it.
"""

from __future__ import annotations

from collections.abc import Iterable

from allauth.usersessions.models import UserSession
from django.contrib.auth import BACKEND_SESSION_KEY, logout
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from llamaweb.accounts.models import AuditAction, User
from llamaweb.accounts.services import audit_record

MAX_SESSIONS = 50  # of one user; the one not seen for longest gives way


def sessions_list(request: HttpRequest) -> list[UserSession]:
    """The living sessions of the user who asks, the current one first, then by last use."""
    assert isinstance(request.user, User)
    current = request.session.session_key
    if current and BACKEND_SESSION_KEY in request.session:  # signed in before sessions were kept
        session_seen(request)
    found: list[UserSession] = UserSession.objects.purge_and_list(request.user)
    found.sort(key=lambda session: session.last_seen_at, reverse=True)
    found.sort(key=lambda session: session.session_key != current)
    return found


def session_seen(request: HttpRequest) -> None:
    """Note that the session of `request` was used now, from where, by what."""
    UserSession.objects.create_from_request(request)


def session_end(*, request: HttpRequest, session_id: int) -> int:
    """End one session of the user who asks; how many: 0 when it isn't theirs (any more)."""
    assert isinstance(request.user, User)
    user, current = request.user, request.session.session_key
    chosen = list(UserSession.objects.filter(user=user, pk=session_id))
    num_ended = _end(user, chosen, request.META.get("REMOTE_ADDR"))
    if any(session.session_key == current for session in chosen):
        logout(request)
    return num_ended


def sessions_end(
    *,
    user: User,
    keep: str | None,
    actor: User | None = None,
    address: str | None = None,
) -> int:
    """End all sessions of `user` but the one whose key is `keep`; how many. `actor`: who asked, if
    it wasn't the user."""
    chosen = UserSession.objects.filter(user=user).exclude(session_key=keep)
    return _end(user, chosen, address, actor)


def sessions_bound(*, user: User, current: str | None) -> None:
    """Let the sessions of `user` not grow beyond MAX_SESSIONS; called after a login."""
    sessions = UserSession.objects.filter(user=user).exclude(session_key=current)
    for session in sessions.order_by("-last_seen_at", "-pk")[MAX_SESSIONS - 1 :]:
        session.end()


def sessions_purge() -> int:
    """Remove the rows of expired sessions, and the devices whose session is gone; how many rows."""
    expired = Session.objects.filter(expire_date__lt=timezone.now())
    num_expired, _ = expired.delete()
    gone = UserSession.objects.exclude(session_key__in=Session.objects.values("session_key"))
    num_gone, _ = gone.delete()
    return int(num_expired + num_gone)


def session_end_by(*, session: UserSession, actor: User | None, address: str | None = None) -> int:
    """End one session of anybody, on an administrator's order."""
    return _end(session.user, [session], address, actor)


def _end(
    user: User,
    sessions: Iterable[UserSession],
    address: str | None,
    actor: User | None = None,
) -> int:
    with transaction.atomic():
        ended = list(sessions)
        for session in ended:
            session.end()
        if ended:
            audit_record(
                action=AuditAction.SESSIONS_ENDED,
                actor=actor or user,
                target=user,
                address=address,
                username=user.get_username(),
                num_ended=len(ended),
            )
    return len(ended)
