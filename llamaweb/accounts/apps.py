"""Django's view of this app."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Users, how they get in, API keys and the audit log."""

    name = "llamaweb.accounts"
    label = "accounts"

    def ready(self) -> None:
        """Put our login in front of the administration and watch the second factor."""
        from django.contrib import admin

        from llamaweb.accounts.second_factor import guard_admin, watch_authenticators

        guard_admin(admin.site)
        watch_authenticators()
