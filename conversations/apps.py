"""Django's view of this app."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ConversationsConfig(AppConfig):
    """See ARCHITECTURE.md for what lives here."""

    name = "conversations"
    verbose_name = _("Conversations")

    def ready(self) -> None:
        """Connect the signals once the models are there."""
        import_module("conversations.signals")
