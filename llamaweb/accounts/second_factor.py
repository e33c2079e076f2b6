"""The second factor: written down when it comes and goes, and needed for the administration.

Whether staff need one is an administrator's choice (`SiteSettings`).
"""

from __future__ import annotations

from typing import Any

from allauth.account.decorators import secure_admin_login
from allauth.core import context
from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from llamaweb.accounts.models import AuditAction, User
from llamaweb.accounts.services import audit_record
from llamaweb.accounts.site_services import site_settings


def lacks_second_factor(user: User | AnonymousUser) -> bool:
    """Whether `user` is kept out of the administration until they have one."""
    if not (user.is_authenticated and user.is_staff):
        return False
    if not site_settings().require_second_factor_for_staff:
        return False
    return not is_mfa_enabled(user, [Authenticator.Type.TOTP])


def guard_admin(site: AdminSite) -> None:
    """Let the administration use our login with all its steps."""
    may_enter, own_login = site.has_permission, secure_admin_login(site.login)

    def has_permission(request: HttpRequest) -> bool:
        return may_enter(request) and not lacks_second_factor(request.user)

    def login(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if lacks_second_factor(request.user):
            text = _("The administration needs a second factor: set one up first.")
            messages.warning(request, text)
            return redirect("mfa_activate_totp")
        response: HttpResponse = own_login(request, *args, **kwargs)
        return response

    site.has_permission = has_permission  # type: ignore[method-assign]
    site.login = login  # type: ignore[method-assign]


def watch_authenticators() -> None:
    """Write down every authenticator app that is added or removed, in its own transaction."""
    post_save.connect(_saved, sender=Authenticator, dispatch_uid="second_factor_added")
    post_delete.connect(_deleted, sender=Authenticator, dispatch_uid="second_factor_removed")


def _saved(instance: Any, created: bool, **_rest: Any) -> None:
    if created:
        _record(AuditAction.SECOND_FACTOR_ADDED, instance)


def _deleted(instance: Any, **_rest: Any) -> None:
    _record(AuditAction.SECOND_FACTOR_REMOVED, instance)


def _record(action: AuditAction, authenticator: Any) -> None:
    if authenticator.type != Authenticator.Type.TOTP:
        return
    request: HttpRequest | None = context.request
    actor = request.user if request is not None and isinstance(request.user, User) else None
    with transaction.atomic():
        audit_record(
            action=action,
            actor=actor,
            target=authenticator.user,
            address=request.META.get("REMOTE_ADDR") if request is not None else None,
            username=authenticator.user.get_username(),
        )
