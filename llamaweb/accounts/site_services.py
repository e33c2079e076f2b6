"""What an administrator decides for the whole instance."""

from __future__ import annotations

from django.db import transaction

from llamaweb.accounts.models import AuditAction, SignupMode, SiteSettings, User
from llamaweb.accounts.models.entry import ONLY_ID
from llamaweb.accounts.services import audit_record
from llamaweb.lib.errors import InvalidError

FIELDS = ("signup_mode", "require_second_factor_for_staff")


def site_settings() -> SiteSettings:
    """The settings as they are; the closed ones when nobody has changed any."""
    return SiteSettings.objects.filter(pk=ONLY_ID).first() or SiteSettings(pk=ONLY_ID)


def site_settings_lock() -> SiteSettings:
    """The row, made when it is missing, locked until the transaction ends."""
    SiteSettings.objects.get_or_create(pk=ONLY_ID)
    return SiteSettings.objects.select_for_update().get(pk=ONLY_ID)


def signup_mode_set(*, mode: str, actor: User | None, address: str | None = None) -> bool:
    """Say who may sign up. False: it was so already.

    Raises:
        InvalidError: no such mode.
    """
    if mode not in SignupMode.values:
        raise InvalidError(f"signup_mode must be one of: {', '.join(SignupMode.values)}")
    return _set("signup_mode", mode, actor=actor, address=address)


def second_factor_for_staff_set(
    *, is_required: bool, actor: User | None, address: str | None = None
) -> bool:
    """Say whether the administration needs a second factor. False: it was so already."""
    return _set("require_second_factor_for_staff", is_required, actor=actor, address=address)


def _set(field: str, value: str | bool, *, actor: User | None, address: str | None) -> bool:
    with transaction.atomic():
        row = site_settings_lock()
        before = getattr(row, field)
        if before == value:
            return False
        setattr(row, field, value)
        row.save(update_fields=[field])
        audit_record(
            action=AuditAction.SITE_SETTINGS_CHANGED,
            actor=actor,
            target=row,
            address=address,
            field=field,
            before=before,
            after=value,
        )
    return True
