"""Django's view of this app."""

from __future__ import annotations

from django.apps import AppConfig


class ConversationsConfig(AppConfig):
    """See ARCHITECTURE.md for what lives here."""

    name = "conversations"
