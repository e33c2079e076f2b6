"""Django's view of this app."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AccountsConfig(AppConfig):
    """Users, how they get in, API keys and the audit log."""

    name = "llamaweb.accounts"
    label = "accounts"
    verbose_name = _("People")

    def ready(self) -> None:
        """Watch the second factor."""
        from llamaweb.accounts.second_factor import watch_authenticators

        watch_authenticators()
