"""Accounts in the admin: keys without their secret, the audit log read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest

from llamaweb.accounts import user_admin
from llamaweb.accounts.models import ApiKey, AuditEvent, User
from llamaweb.accounts.services import api_key_revoke

__all__ = ["ApiKeyAdmin", "AuditEventAdmin", "user_admin"]  # Django looks for this module only


if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


class _ReadOnly(_ModelAdmin):
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(AuditEvent)
class AuditEventAdmin(_ReadOnly):
    """What was done, by whom."""

    list_display = ("at", "action", "actor_name", "object_type", "object_id", "address")
    list_filter = ("action",)
    search_fields = ("actor_name", "object_id")
    show_full_result_count = False


@admin.register(ApiKey)
class ApiKeyAdmin(_ReadOnly):
    """Keys are made by `create_api_key` and by their owners; here they can be revoked."""

    list_display = ("name", "prefix", "user", "last_used_at", "expires_at", "revoked_at")
    list_select_related = ("user",)
    search_fields = ("name", "prefix", "user__username")
    exclude = ("digest",)
    actions = ("revoke",)

    @admin.action(description="Revoke the chosen keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: Any) -> None:
        """Revoke, with one audit event a key."""
        assert isinstance(request.user, User)
        for key in queryset:
            api_key_revoke(key=key, actor=request.user, address=request.META.get("REMOTE_ADDR"))

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Whoever may change keys may revoke them."""
        return bool(request.user.is_active and request.user.has_perm("accounts.change_apikey"))
