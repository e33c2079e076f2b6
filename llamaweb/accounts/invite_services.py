"""Invites: a link that lets one person sign up, once."""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from llamaweb.accounts.models import AuditAction, Invite, User
from llamaweb.accounts.services import audit_record
from llamaweb.accounts.site_services import site_settings_lock
from llamaweb.accounts.tokens import MAX_TOKEN_LEN, new_token, token_digest
from llamaweb.lib.errors import InvalidError

KIND = "invite"
NOTE_LEN = 200
DEFAULT_DAYS = 7
MAX_DAYS = 365
MAX_OPEN_INVITES = 1000


def invite_create(
    *,
    actor: User | None,
    note: str = "",
    expires_at: dt.datetime | None = None,
    address: str | None = None,
) -> tuple[Invite, str]:
    """Make an invite; returns the row and its link, which nobody can read again.

    Without `expires_at` it is good for a week.

    Raises:
        InvalidError: too long a note, an expiry in the past or too far away, too many invites.
    """
    now = timezone.now()
    expires_at = expires_at or now + dt.timedelta(days=DEFAULT_DAYS)
    _check(note, expires_at, now)
    raw = new_token()
    with transaction.atomic():
        site_settings_lock()  # one after another, or side by side they would pass the bound
        if usable_invites(now).count() >= MAX_OPEN_INVITES:
            raise InvalidError(f"there may be {MAX_OPEN_INVITES} open invites; revoke one first")
        invite = Invite.objects.create(
            digest=token_digest(KIND, raw),
            note=note.strip(),
            created_at=now,
            created_by=actor,
            expires_at=expires_at,
        )
        audit_record(
            action=AuditAction.INVITE_CREATED,
            actor=actor,
            target=invite,
            address=address,
            note=invite.note,
            expires_at=expires_at.isoformat(),
        )
    return invite, f"{settings.PUBLIC_URL}{reverse('account_signup')}?invite={raw}"


def _check(note: str, expires_at: dt.datetime, now: dt.datetime) -> None:
    if len(note.strip()) > NOTE_LEN:
        raise InvalidError(f"the note may have {NOTE_LEN} characters", param="note")
    if not now < expires_at <= now + dt.timedelta(days=MAX_DAYS):
        message = f"the expiry must lie in the future, at most {MAX_DAYS} days away"
        raise InvalidError(message, param="expires_at")


def usable_invites(now: dt.datetime | None = None) -> QuerySet[Invite]:
    """Invites that still let somebody in."""
    now = now or timezone.now()
    return Invite.objects.filter(used_at=None, revoked_at=None, expires_at__gt=now)


def invite_is_usable(raw: str) -> bool:
    """Whether the token `raw` would let somebody in now."""
    if not 0 < len(raw) <= MAX_TOKEN_LEN:
        return False
    return usable_invites().filter(digest=token_digest(KIND, raw)).exists()


def invite_take(raw: str) -> Invite | None:
    """Use up the invite `raw`, in the transaction that makes the user; None: it is worthless.

    Of two who come at once only one gets it.
    """
    digest = token_digest(KIND, raw)
    is_taken = usable_invites().filter(digest=digest).update(used_at=timezone.now())
    return Invite.objects.get(digest=digest) if is_taken else None


def invite_used(*, invite: Invite, user: User, address: str | None = None) -> None:
    """Say who has come by `invite`; in the transaction of `invite_take`."""
    invite.used_by = user
    invite.save(update_fields=["used_by"])
    audit_record(
        action=AuditAction.INVITE_USED,
        actor=user,
        target=invite,
        address=address,
        username=user.get_username(),
        note=invite.note,
    )


def invite_revoke(*, invite: Invite, actor: User | None, address: str | None = None) -> bool:
    """Make `invite` worthless at once. False: it was used or revoked already."""
    with transaction.atomic():
        changed = Invite.objects.filter(pk=invite.pk, used_at=None, revoked_at=None).update(
            revoked_at=timezone.now()
        )
        if changed:
            audit_record(
                action=AuditAction.INVITE_REVOKED,
                actor=actor,
                target=invite,
                address=address,
                note=invite.note,
            )
    invite.refresh_from_db()
    return bool(changed)
