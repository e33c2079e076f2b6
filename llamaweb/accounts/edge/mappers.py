"""Rows as the settings page sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaweb.accounts.edge.schemas import KeyOut, PreferencesOut, SessionOut

if TYPE_CHECKING:
    from allauth.usersessions.models import UserSession

    from llamaweb.accounts.models import ApiKey, User


def preferences_out(user: User) -> PreferencesOut:
    """How the app looks for `user`."""
    return PreferencesOut.model_validate({"theme": user.theme, "language": user.language})


def key_out(key: ApiKey) -> KeyOut:
    """A key without its secret."""
    return KeyOut(
        id=key.pk,
        name=key.name,
        prefix=key.prefix,
        scopes=list(key.scopes),
        models=list(key.model_names),
        created_at=key.created_at,
        expires_at=key.expires_at,
        last_used_at=key.last_used_at,
        revoked_at=key.revoked_at,
    )


def session_out(session: UserSession, current: str | None) -> SessionOut:
    """A signed-in device; `current` is the key of the session that asks."""
    return SessionOut(
        id=session.pk,
        is_current=session.session_key == current,
        created_at=session.created_at,
        last_seen_at=session.last_seen_at,
        address=session.ip,
        agent=session.user_agent,
    )
