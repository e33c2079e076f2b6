"""Keys, invites, site settings and the audit log in the administration.

Django looks for this module only; users, groups, sessions and second factors stand beside it.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import DropdownFilter, FieldTextFilter

from llamaweb.accounts import user_admin
from llamaweb.accounts.admin_base import Act, Admin, ReadOnlyAdmin, display, has_permission, who
from llamaweb.accounts.invite_services import invite_create, invite_revoke, usable_invites
from llamaweb.accounts.models import (
    ApiKey,
    AuditAction,
    AuditEvent,
    Invite,
    SignupMode,
    SiteSettings,
)
from llamaweb.accounts.models.entry import ONLY_ID
from llamaweb.accounts.services import api_key_revoke
from llamaweb.accounts.site_services import (
    second_factor_for_staff_set,
    signup_mode_set,
    site_settings,
)
from llamaweb.lib.errors import LlamawebError

__all__ = ["ApiKeyAdmin", "AuditEventAdmin", "InviteAdmin", "SiteSettingsAdmin", "user_admin"]


class ActionFilter(DropdownFilter):  # type: ignore[misc]  # untyped
    """Which act."""

    title = _("act")
    parameter_name = "act"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """All acts that are written down."""
        return [(str(value), str(label)) for value, label in AuditAction.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Those of the chosen act."""
        value = self.value()
        return queryset.filter(action=value) if value else queryset


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    """What was done, by whom."""

    list_display = ("at", "act", "actor", "object", "address")
    list_filter = (
        ActionFilter,
        ("actor_name", FieldTextFilter),
        "at",
    )
    date_hierarchy = "at"
    search_fields = ("actor_name", "object_id", "address")
    fields = ("at", "act", "actor", "object", "address", "details")
    readonly_fields = ("act", "actor", "object", "details")

    @display(description=_("act"), ordering="action")
    def act(self, event: AuditEvent) -> str:
        """In words."""
        return str(dict(AuditAction.choices).get(event.action, event.action))

    @display(description=_("by"), ordering="actor_name")
    def actor(self, event: AuditEvent) -> str:
        """Who did it; the server itself has no name."""
        return event.actor_name or gettext("the server")

    @display(description=_("object"))
    def object(self, event: AuditEvent) -> str:
        """What it was done to, with the name it had."""
        named = event.detail.get("username") or event.detail.get("name") or ""
        kind = event.object_type.rpartition(".")[2]
        return " ".join(filter(None, [kind, str(named), f"#{event.object_id}"]))

    @display(description=_("details"))
    def details(self, event: AuditEvent) -> str:
        """One line a value."""
        rows = (
            (name, json.dumps(value, ensure_ascii=False)) for name, value in event.detail.items()
        )
        return format_html(
            "<dl class='lw-details'>{}</dl>", format_html_join("", "<dt>{}</dt><dd>{}</dd>", rows)
        )


def _revoke_key(request: HttpRequest, key: ApiKey) -> str:
    done = api_key_revoke(key=key, **who(request))
    return gettext("The key is revoked.") if done else gettext("The key was revoked already.")


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Keys are made by `create_api_key` and by their owners; here they can be revoked."""

    list_display = ("name", "prefix", "user", "state", "created_at", "last_used_at", "expires_at")
    list_select_related = ("user",)
    search_fields = ("name", "prefix", "user__username")
    exclude = ("digest",)
    actions = ("revoke",)
    acts = (
        Act(
            "revoke",
            _("Revoke"),
            _revoke_key,
            is_open=lambda key: key.revoked_at is None,
            is_dangerous=True,
        ),
    )

    @display(description=_("state"), label={"valid": "success", "revoked": "danger"})
    def state(self, key: ApiKey) -> tuple[str, str]:
        """Valid or revoked."""
        if key.revoked_at is None:
            return "valid", gettext("valid")
        return "revoked", gettext("revoked")

    @admin.action(description=_("Revoke the chosen keys"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: Any) -> None:
        """Revoke, with one audit event a key."""
        self.run_on(request, queryset, lambda key: api_key_revoke(key=key, **who(request)))

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Whoever may change keys may revoke them."""
        return has_permission(request, ApiKey, "change")


def _revoke_invite(request: HttpRequest, invite: Invite) -> str:
    done = invite_revoke(invite=invite, **who(request))
    return gettext("The invite is revoked.") if done else gettext("It was used or revoked already.")


@admin.register(Invite)
class InviteAdmin(Admin):
    """Invites: made here, their link shown once, revoked."""

    list_display = ("__str__", "state", "created_by", "created_at", "expires_at", "used_by")
    list_select_related = ("created_by", "used_by")
    search_fields = ("note", "created_by__username", "used_by__username")
    actions = ("revoke",)
    acts = (
        Act(
            "revoke",
            _("Revoke"),
            _revoke_invite,
            is_open=lambda invite: invite.used_at is None and invite.revoked_at is None,
            is_dangerous=True,
        ),
    )
    link: ClassVar[str] = "llamaweb/admin/invite_link.html"

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Two to fill in; all to read."""
        asked = ("note", "expires_at")
        read = ("created_by", "created_at", "used_by", "used_at", "revoked_at")
        return asked if obj is None else (*asked, *read)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """An invite isn't changed."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """It is revoked."""
        return False

    def may(self, request: HttpRequest, permission: str, obj: Any) -> bool:
        """The permission itself."""
        return has_permission(request, Invite, permission)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """The expiry may be left out."""
        form = super().get_form(request, obj, change, **kwargs)
        if "expires_at" in form.base_fields:
            form.base_fields["expires_at"].required = False
            form.base_fields["expires_at"].help_text = gettext("Left out: in a week.")
        return form

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Through the service, whose link is kept for the answer to this request."""
        values = form.cleaned_data
        invite, link = invite_create(
            note=values["note"], expires_at=values["expires_at"], **who(request)
        )
        obj.pk, obj._link = invite.pk, link

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """The audit log has it."""

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> Any:
        """The link, on this one page: it is stored nowhere."""
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("The invite's link"),
            "link": obj._link,
            "is_closed": site_settings().signup_mode == SignupMode.CLOSED,
            "opts": self.opts,
            "invite": Invite.objects.get(pk=obj.pk),
        }
        return TemplateResponse(request, self.link, context, headers={"Cache-Control": "no-store"})

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """What the service refuses is said over the form."""
        try:
            return super().add_view(request, form_url, extra_context)
        except LlamawebError as error:
            messages.error(request, error.message)
            return redirect(request.path)

    @display(description=_("state"), label={"open": "success", "used": "info", "revoked": "danger"})
    def state(self, invite: Invite) -> tuple[str, str]:
        """What became of it."""
        if invite.used_at is not None:
            return "used", gettext("used")
        if invite.revoked_at is not None:
            return "revoked", gettext("revoked")
        if not usable_invites().filter(pk=invite.pk).exists():
            return "expired", gettext("expired")
        return "open", gettext("open")

    @admin.action(description=_("Revoke the chosen invites"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: Any) -> None:
        """Revoke, with one audit event an invite."""
        self.run_on(request, queryset, lambda item: invite_revoke(invite=item, **who(request)))

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Whoever may change invites may revoke them."""
        return has_permission(request, Invite, "change")


@admin.register(SiteSettings)
class SiteSettingsAdmin(Admin):
    """One row: who may sign up, and whether staff need a second factor."""

    fields = ("signup_mode", "require_second_factor_for_staff")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """There is only one."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """It stays."""
        return False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Straight to the row."""
        if self.has_view_or_change_permission(request):
            SiteSettings.objects.get_or_create(pk=ONLY_ID)
            name = f"{self.admin_site.name}:accounts_sitesettings_change"
            return redirect(reverse(name, args=[ONLY_ID]))
        return super().changelist_view(request, extra_context)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Through the services, one audit event a change."""
        signup_mode_set(mode=obj.signup_mode, **who(request))
        is_required = obj.require_second_factor_for_staff
        second_factor_for_staff_set(is_required=is_required, **who(request))
