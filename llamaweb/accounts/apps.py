"""Django's view of this app."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Users, API keys and the audit log."""

    name = "llamaweb.accounts"
    label = "accounts"
