"""Django's view of this app."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class ConversationsConfig(AppConfig):
    """See ARCHITECTURE.md for what lives here."""

    name = "conversations"

    def ready(self) -> None:
        """Connect the signals once the models are there."""
        import_module("conversations.signals")
