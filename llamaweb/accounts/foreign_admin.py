"""Sessions and second factors in the administration, in place of the pages their package has.

Those pages show secrets and change rows past our services.
"""

from __future__ import annotations

from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from llamaweb.accounts.admin_base import Act, ReadOnlyAdmin, who
from llamaweb.accounts.session_services import session_end_by
from llamaweb.accounts.user_admin import may_touch


def _remove(request: HttpRequest, authenticator: Any) -> str:
    authenticator.delete()  # written down by llamaweb.accounts.second_factor
    return gettext("The second factor is removed; the password alone lets this user in.")


class AuthenticatorAdmin(ReadOnlyAdmin):
    """Who has a second factor. It can be taken away from somebody who lost their device."""

    list_display = ("user", "type", "created_at", "last_used_at")
    list_select_related = ("user",)
    list_filter = ("type",)
    search_fields = ("user__username",)
    fields = ("user", "type", "created_at", "last_used_at")
    acts = (Act("remove", _("Remove"), _remove, permission="delete", is_dangerous=True),)

    def may(self, request: HttpRequest, permission: str, obj: Any) -> bool:
        """Of staff only a superuser takes it."""
        return super().may(request, permission, obj) and may_touch(request, obj.user)


def _end(request: HttpRequest, session: Any) -> str:
    session_end_by(session=session, **who(request))
    return gettext("The session has ended.")


class UserSessionAdmin(ReadOnlyAdmin):
    """Signed-in devices, without the key of the session."""

    list_display = ("user", "address", "agent", "created_at", "last_seen_at")
    list_select_related = ("user",)
    search_fields = ("user__username", "ip")
    fields = ("user", "address", "user_agent", "created_at", "last_seen_at")
    readonly_fields = ("address",)
    acts = (Act("end", _("End"), _end, permission="delete", is_dangerous=True),)

    @admin.display(description=_("address"), ordering="ip")
    def address(self, session: Any) -> str:
        """Where it was last used from."""
        return str(session.ip)

    @admin.display(description=_("browser"))
    def agent(self, session: Any) -> str:
        """What the browser calls itself, shortened."""
        text = str(session.user_agent)
        return text if len(text) <= 60 else text[:59] + "…"

    def may(self, request: HttpRequest, permission: str, obj: Any) -> bool:
        """Those of staff only a superuser ends."""
        return super().may(request, permission, obj) and may_touch(request, obj.user)


def replace_foreign_admin() -> None:
    """Call it when every app's administration is registered."""
    admin.site.unregister([EmailAddress, Authenticator, UserSession])
    admin.site.register(Authenticator, AuthenticatorAdmin)
    admin.site.register(UserSession, UserSessionAdmin)
