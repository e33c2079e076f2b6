"""The first administrator: made through a one-time link that only the server's console shows.

There is a link only while no active superuser exists, and only the newest one works. All acts
here hold the lock of the site's settings, so two links or two clicks make one administrator.
"""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from llamaweb.accounts.models import AuditAction, SetupLink, User
from llamaweb.accounts.services import audit_record
from llamaweb.accounts.site_services import site_settings_lock
from llamaweb.accounts.tokens import MAX_TOKEN_LEN, new_token, token_digest
from llamaweb.lib.errors import NotFoundError

KIND = "setup"
SETUP_LINK_LIFE = dt.timedelta(hours=1)
GONE = "this link isn't valid (any more)"


def setup_is_needed() -> bool:
    """Whether nobody can administer this instance."""
    return not User.objects.filter(is_superuser=True, is_active=True).exists()


def setup_link_create() -> str | None:
    """Make a new link, which ends the one before; None: there is an administrator already."""
    now = timezone.now()
    raw = new_token()
    with transaction.atomic():
        site_settings_lock()
        SetupLink.objects.all().delete()
        if not setup_is_needed():
            return None
        link = SetupLink.objects.create(
            digest=token_digest(KIND, raw), created_at=now, expires_at=now + SETUP_LINK_LIFE
        )
        audit_record(action=AuditAction.SETUP_LINK_CREATED, actor=None, target=link)
    return settings.PUBLIC_URL + reverse("setup", args=[raw])


def setup_link_is_usable(raw: str) -> bool:
    """Whether the token `raw` makes an administrator now."""
    return _usable(raw) is not None and setup_is_needed()


def setup_complete(*, raw: str, username: str, password: str, address: str | None = None) -> User:
    """Use up the link `raw` and make the first administrator; the name is free and valid.

    Raises:
        NotFoundError: the link is used, expired or unknown, or there is an administrator.
        django ValidationError: the password is too weak.
    """
    user = User(username=username, is_staff=True, is_superuser=True)
    validate_password(password, user)
    user.set_password(password)
    with transaction.atomic():
        site_settings_lock()
        link = _usable(raw)
        if link is None or not setup_is_needed():
            raise NotFoundError(GONE)
        link.used_at = timezone.now()
        link.save(update_fields=["used_at"])
        user.save()
        audit_record(
            action=AuditAction.SETUP_COMPLETED,
            actor=user,
            target=user,
            address=address,
            username=user.get_username(),
        )
    return user


def _usable(raw: str) -> SetupLink | None:
    if not 0 < len(raw) <= MAX_TOKEN_LEN:
        return None
    usable = SetupLink.objects.filter(used_at=None, expires_at__gt=timezone.now())
    return usable.filter(digest=token_digest(KIND, raw)).first()
