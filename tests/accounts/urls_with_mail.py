"""The addresses of a server that can send e-mail; see test_password_reset."""

from __future__ import annotations

from django.urls import include, path

from frontend.views import shell
from llamaweb.accounts.urls import account_urls

urlpatterns = [
    path("", include(account_urls(has_mail=True))),
    path("", include(([path("", shell, name="shell")], "frontend"))),
]
