"""Django's view of this app."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.utils.translation import gettext_lazy as _

PEOPLE = _("People")
# Apps of others: groups, second factors, signed-in devices.
ABOUT_PEOPLE = ("auth", "mfa", "usersessions")


class AccountsConfig(AppConfig):
    """Users, how they get in, API keys and the audit log."""

    name = "llamaweb.accounts"
    label = "accounts"
    verbose_name = PEOPLE

    def ready(self) -> None:
        """Name what stands under "People" in the administration; watch the second factor."""
        from llamaweb.accounts.second_factor import watch_authenticators

        for label in ABOUT_PEOPLE:
            apps.get_app_config(label).verbose_name = PEOPLE
        watch_authenticators()
