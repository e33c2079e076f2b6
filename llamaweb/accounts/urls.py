"""Addresses of the account pages: those of allauth that this product has.

E-mail addresses are an administrator's matter, so allauth's pages for them aren't here.
"""

from __future__ import annotations

from allauth.account import views as allauth_views
from allauth.usersessions.views import list_usersessions
from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path, re_path
from django.views.generic import RedirectView

from llamaweb.accounts import views

Patterns = list[URLPattern | URLResolver]

PAGES: Patterns = [
    path("", RedirectView.as_view(pattern_name="mfa_index"), name="account_index"),
    path("login/", views.LoginView.as_view(), name="account_login"),
    path("logout/", allauth_views.logout, name="account_logout"),
    path("signup/", views.SignupView.as_view(), name="account_signup"),
    path("inactive/", allauth_views.account_inactive, name="account_inactive"),
    path("reauthenticate/", allauth_views.reauthenticate, name="account_reauthenticate"),
    path("password/change/", allauth_views.password_change, name="account_change_password"),
    path("password/set/", allauth_views.password_set, name="account_set_password"),
    path("2fa/", include("allauth.mfa.urls")),
    path("sessions/", list_usersessions, name="usersessions_list"),
]

RESET_PAGES: Patterns = [
    path("password/reset/", allauth_views.password_reset, name="account_reset_password"),
    path(
        "password/reset/done/",
        allauth_views.password_reset_done,
        name="account_reset_password_done",
    ),
    re_path(
        r"^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
        allauth_views.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    path(
        "password/reset/key/done/",
        allauth_views.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
]


def account_urls(*, has_mail: bool) -> Patterns:
    """All addresses. Without mail no reset, and no link to it: templates ask by name."""
    return [
        path("accounts/", include(PAGES + (RESET_PAGES if has_mail else []))),
        path("setup/<str:token>/", views.setup, name="setup"),
    ]


urlpatterns = account_urls(has_mail=settings.EMAIL_IS_CONFIGURED)
