"""Users and groups in the administration, with an audit event for each act.

Only superusers make superusers, staff and rights: somebody who may edit users can't make themselves
more than they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from llamaweb.accounts.admin_base import Act, Admin, who
from llamaweb.accounts.group_services import (
    group_permissions,
    group_rights_changed,
    group_save,
    groups_delete,
)
from llamaweb.accounts.models import User
from llamaweb.accounts.session_services import sessions_end
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

TWO_LISTS = ("llamaweb/two_lists.js",)
# What only a superuser gives and takes.
POWERS = ("is_staff", "is_superuser", "groups", "user_permissions")


def _end_sessions(request: HttpRequest, user: User) -> str:
    keep = request.session.session_key if user.pk == request.user.pk else None
    count = sessions_end(user=user, keep=keep, **who(request))
    text = ngettext("%(count)d session ended.", "%(count)d sessions ended.", count)
    return text % {"count": count}


def _active_set(request: HttpRequest, user: User, is_active: bool) -> bool:
    """Let a user in or keep them out. False: it was so already."""
    row = User.objects.get(pk=user.pk)
    if row.is_active == is_active:
        return False
    row.is_active = is_active
    user_save(user=row, **who(request))
    return True


def _deactivate(request: HttpRequest, user: User) -> str:
    _active_set(request, user, False)
    return gettext("The account is deactivated, and its sessions have ended.")


def _activate(request: HttpRequest, user: User) -> str:
    _active_set(request, user, True)
    return gettext("The account is active again.")


@admin.register(User)
class AuditedUserAdmin(_UserAdmin, Admin):
    """Making, changing, promoting and deleting users, and their passwords."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter = ("is_active", "is_staff", "is_superuser", "groups")
    list_filter_sheet = True
    readonly_fields = ("last_login", "date_joined")
    actions = ("deactivate", "end_sessions")

    class Media:
        js = TWO_LISTS

    acts = (
        Act("end-sessions", _("End all sessions"), _end_sessions),
        Act("activate", _("Activate"), _activate, is_open=lambda user: not user.is_active),
        Act(
            "deactivate",
            _("Deactivate"),
            _deactivate,
            is_open=lambda user: user.is_active,
            is_dangerous=True,
        ),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """See the module."""
        fields = super().get_readonly_fields(request, obj)
        return fields if request.user.is_superuser else (*fields, *POWERS)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Staff are a superuser's matter, but for oneself."""
        return super().has_change_permission(request, obj) and may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Staff are a superuser's matter; nobody deletes themselves."""
        is_self = obj is not None and obj.pk == request.user.pk
        return (
            super().has_delete_permission(request, obj) and may_touch(request, obj) and not is_self
        )

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """The view holds a transaction around this and `save_related`."""
        user_save(user=obj, **who(request))

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Groups and permissions."""
        with transaction.atomic():
            before = user_rights(form.instance)
            super().save_related(request, form, formsets, change)
            user_rights_changed(user=form.instance, before=before, **who(request))

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        """One user."""
        users_delete(users=[obj], **who(request))

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """The chosen users."""
        users = list(queryset)
        if not all(self.has_delete_permission(request, user) for user in users):
            raise PermissionDenied
        users_delete(users=users, **who(request))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """All that is theirs goes with a user, whatever else may be deleted by hand."""
        found, counts, forbidden, protected = super().get_deleted_objects(objs, request)
        return found, counts, forbidden & {User._meta.verbose_name}, protected

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
                    user_password_changed(user=user, **who(request))
        return response

    @admin.action(description=_("Deactivate the chosen users"), permissions=["change"])
    def deactivate(self, request: HttpRequest, queryset: Any) -> None:
        """Keep them out; oneself stays."""
        users = [
            user
            for user in queryset
            if user.pk != request.user.pk and self.has_change_permission(request, user)
        ]
        self.run_on(request, users, lambda user: _active_set(request, user, False))

    @admin.action(description=_("End all sessions of the chosen users"), permissions=["change"])
    def end_sessions(self, request: HttpRequest, queryset: Any) -> None:
        """Sign them out everywhere, but for the session that asks."""
        users = [user for user in queryset if self.has_change_permission(request, user)]
        self.run_on(request, users, lambda user: _end_sessions(request, user))


def may_touch(request: HttpRequest, obj: Any) -> bool:
    """Whether the acting person may change this user: staff are a superuser's matter."""
    is_powerful = obj is not None and (obj.is_staff or obj.is_superuser)
    return bool(request.user.is_superuser or not is_powerful or obj.pk == request.user.pk)


admin.site.unregister(Group)


@admin.register(Group)
class AuditedGroupAdmin(GroupAdmin, Admin):
    """Groups: bundles of rights, so only superusers change them."""

    list_display = ("name",)

    class Media:
        js = TWO_LISTS

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Superusers."""
        return bool(request.user.is_superuser) and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Superusers."""
        return bool(request.user.is_superuser) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Superusers."""
        return bool(request.user.is_superuser) and super().has_delete_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Group, form: Any, change: bool) -> None:
        """With an audit event."""
        group_save(group=obj, **who(request))

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Permissions."""
        with transaction.atomic():
            before = group_permissions(form.instance)
            super().save_related(request, form, formsets, change)
            group_rights_changed(group=form.instance, before=before, **who(request))

    def delete_model(self, request: HttpRequest, obj: Group) -> None:
        """One group."""
        groups_delete(groups=[obj], **who(request))

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """The chosen groups."""
        groups_delete(groups=list(queryset), **who(request))
