"""Users in the admin: Django's own pages, with an audit event for each act."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from llamaweb.accounts.models import ApiKey, User
from llamaweb.accounts.user_services import (
    user_password_changed,
    user_rights,
    user_rights_changed,
    user_save,
    users_delete,
)

if TYPE_CHECKING:
    _UserAdmin = UserAdmin[User]
else:
    _UserAdmin = UserAdmin


@admin.register(User)
class AuditedUserAdmin(_UserAdmin):
    """Making, changing, promoting and deleting users, and their passwords."""

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """The view holds a transaction around this and `save_related`."""
        user_save(user=obj, **_who(request))

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Groups and permissions."""
        with transaction.atomic():
            before = user_rights(form.instance)
            super().save_related(request, form, formsets, change)
            user_rights_changed(user=form.instance, before=before, **_who(request))

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        """One user."""
        users_delete(users=[obj], **_who(request))

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """The chosen users."""
        users_delete(users=list(queryset), **_who(request))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Keys go with their user; otherwise they are only ever revoked."""
        found, counts, forbidden, protected = super().get_deleted_objects(objs, request)
        return found, counts, forbidden - {ApiKey._meta.verbose_name}, protected

    def user_change_password(
        self, request: HttpRequest, id: str, form_url: str = ""
    ) -> HttpResponse:
        """The page for somebody else's password."""
        with transaction.atomic():
            before = self.get_object(request, unquote(id))
            response = super().user_change_password(request, id, form_url)
            if isinstance(before, User):
                user = User.objects.get(pk=before.pk)
                if user.password != before.password:
                    user_password_changed(user=user, **_who(request))
        return response


def own_password_change(request: HttpRequest) -> HttpResponse:
    """Django's page for one's own password, with an audit event; `admin_view` goes around it."""
    who = _who(request)
    actor: User = who["actor"]
    with transaction.atomic():
        before = User.objects.values_list("password", flat=True).get(pk=actor.pk)
        response = admin.site.password_change(request)
        user = User.objects.get(pk=actor.pk)
        if user.password != before:
            user_password_changed(user=user, **who)
    return response


def _who(request: HttpRequest) -> dict[str, Any]:
    assert isinstance(request.user, User)
    return {"actor": request.user, "address": request.META.get("REMOTE_ADDR")}
