"""Django's view of this app."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class InferenceConfig(AppConfig):
    """See ARCHITECTURE.md for what lives here."""

    name = "inference"
    verbose_name = _("Models and engines")

    def ready(self) -> None:
        """Connect the signals once the models are there."""
        import_module("inference.signals")
