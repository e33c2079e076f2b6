"""What allauth does the way this product wants it: throttling, sign-up, passwords, addresses."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.core.internal.httpkit import get_client_ip
from django.http import HttpRequest, HttpResponse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _

from llamaweb.accounts.invite_services import invite_is_usable
from llamaweb.accounts.language import language_remember
from llamaweb.accounts.models import SignupMode, User
from llamaweb.accounts.password_services import password_set
from llamaweb.accounts.session_services import sessions_bound
from llamaweb.accounts.site_services import site_settings
from llamaweb.lib.errors import BusyError

INVITE_FIELD = "invite"
NO_ADDRESS = "::"  # behind a socket without a proxy that is believed


def presented_invite(request: HttpRequest) -> str:
    """The invite's token that a sign-up form or link brings, "" if none."""
    return request.POST.get(INVITE_FIELD, "") or request.GET.get(INVITE_FIELD, "")


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """See the module."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "too_many_login_attempts": _("Too many failed attempts. Wait a minute and try again."),
    }

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Nothing: `ThrottledBackend` counts, by address and name."""

    def authenticate(self, request: HttpRequest, **credentials: Any) -> User | None:
        """The user, or None; too many failures are an error of the form.

        `request.throttled` is then the BusyError.
        """
        try:
            found: User | None = super().authenticate(request, **credentials)
        except BusyError as error:
            request.throttled = error  # type: ignore[attr-defined]
            raise self.validation_error("too_many_login_attempts") from error
        return found

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """By the administrator's switch."""
        mode = site_settings().signup_mode
        if mode == SignupMode.INVITE:
            return invite_is_usable(presented_invite(request))
        return mode == SignupMode.OPEN

    def set_password(self, user: User, password: str) -> None:
        """Changed on a page or by a link from an e-mail: written down, other sessions end."""
        request: HttpRequest = context.request
        is_own = request.user.is_authenticated and request.user.pk == user.pk
        password_set(
            user=user,
            new=password,
            keep_session=request.session.session_key if is_own else None,
            actor=user,
            address=request.META.get("REMOTE_ADDR"),
        )

    def post_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse:
        """Bound the sessions of a user; the browser learns the language they chose."""
        response: HttpResponse = super().post_login(request, user, **kwargs)
        sessions_bound(user=user, current=request.session.session_key)
        if user.language:
            language_remember(response, user.language)
        return response

    def is_safe_url(self, url: str) -> bool:
        """Only addresses of the very host that was asked."""
        request: HttpRequest = context.request
        return url_has_allowed_host_and_scheme(
            url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
        )

    def get_client_ip(self, request: HttpRequest) -> str:
        """As llamaweb.proxies found it."""
        return get_client_ip(request) or NO_ADDRESS
