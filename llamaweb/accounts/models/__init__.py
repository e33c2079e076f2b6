"""Users, how they get in, their API keys and what was done in their name."""

from __future__ import annotations

from llamaweb.accounts.models.api_key import ApiKey, Scope
from llamaweb.accounts.models.audit import AppendOnlyError, AuditAction, AuditEvent
from llamaweb.accounts.models.entry import Invite, SetupLink, SignupMode, SiteSettings
from llamaweb.accounts.models.user import Language, Theme, User, users_leave

__all__ = [
    "ApiKey",
    "AppendOnlyError",
    "AuditAction",
    "AuditEvent",
    "Invite",
    "Language",
    "Scope",
    "SetupLink",
    "SignupMode",
    "SiteSettings",
    "Theme",
    "User",
    "users_leave",
]
