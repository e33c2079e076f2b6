"""Django's view of this app."""

from __future__ import annotations

from django.apps import AppConfig


class ToolsApiConfig(AppConfig):
    """See ARCHITECTURE.md for what lives here."""

    name = "tools_api"
