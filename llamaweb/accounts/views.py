"""Pages: login and sign-up as allauth has them, and the first administrator's."""

from __future__ import annotations

from typing import Any

from allauth.account.internal.flows.login import perform_login
from allauth.account.models import Login
from allauth.account.views import LoginView as AllauthLoginView
from allauth.account.views import SignupView as AllauthSignupView
from django.conf import settings
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from llamaweb.accounts.adapter import INVITE_FIELD, presented_invite
from llamaweb.accounts.forms import SetupForm
from llamaweb.accounts.models import SignupMode, User
from llamaweb.accounts.setup_services import setup_complete, setup_link_is_usable
from llamaweb.accounts.site_services import site_settings
from llamaweb.accounts.throttle import network, wrong_setup_links
from llamaweb.lib.errors import BusyError, ForbiddenError, NotFoundError


class LoginView(AllauthLoginView):  # type: ignore[misc]
    """A throttled login is the form again, with 429."""

    def form_invalid(self, form: Any) -> HttpResponse:
        """Say when to come back."""
        response: HttpResponse = super().form_invalid(form)
        error = getattr(self.request, "throttled", None)
        if isinstance(error, BusyError):
            response.status_code = 429
            response["Retry-After"] = str(error.retry_after_whole_s)
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Whether there is anything to sign up for."""
        may_sign_up = site_settings().signup_mode == SignupMode.OPEN
        return {**super().get_context_data(**kwargs), "may_sign_up": may_sign_up}


class SignupView(AllauthSignupView):  # type: ignore[misc]
    """Sign-up by the administrator's switch."""

    def get_initial(self) -> dict[str, Any]:
        """The form carries the invite along."""
        return {**super().get_initial(), INVITE_FIELD: presented_invite(self.request)}

    def form_valid(self, form: Any) -> HttpResponse:
        """Make the user, unless somebody else was faster."""
        try:
            response: HttpResponse = super().form_valid(form)
        except ForbiddenError:
            return self.closed()
        except IntegrityError:
            taken = User._meta.get_field("username").error_messages["unique"]
            form.add_error("username", str(taken))
            response = self.form_invalid(form)
        return response

    def closed(self) -> HttpResponse:
        """Says so, and why."""
        had_invite = bool(presented_invite(self.request))
        context = {"had_invite": had_invite, "signup_mode": site_settings().signup_mode}
        return render(self.request, "account/signup_closed.html", context, status=403)


@never_cache
@sensitive_post_parameters("password1", "password2")
@require_http_methods(["GET", "HEAD", "POST"])
def setup(request: HttpRequest, token: str) -> HttpResponse:
    """Makes the first administrator, signs them in and goes to the chat; 404 for a dead link."""
    if not setup_link_is_usable(token):
        return _dead_link(request)
    form = SetupForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            user = setup_complete(
                raw=token,
                username=form.cleaned_data["username"],
                password=form.cleaned_data["password1"],
                address=request.META.get("REMOTE_ADDR"),
            )
        except NotFoundError:
            return _dead_link(request)
        login = Login(user=user, redirect_url=settings.LOGIN_REDIRECT_URL, signup=True)
        response: HttpResponse = perform_login(request, login)
        return response
    return render(request, "accounts/setup.html", {"form": form})


def _dead_link(request: HttpRequest) -> HttpResponse:
    """Counted by address, so that tokens can't be tried freely."""
    wrong_setup_links().take(network(request.META.get("REMOTE_ADDR", "")))
    return render(request, "accounts/setup_gone.html", status=404)
