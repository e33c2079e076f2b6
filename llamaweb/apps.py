"""The composition root as a Django app: its commands, and Celery bound to the settings."""

from __future__ import annotations

from django.apps import AppConfig


class LlamawebConfig(AppConfig):
    """Owns no models."""

    name = "llamaweb"

    def ready(self) -> None:
        """Make `shared_task` in every Django process belong to our Celery application."""
        import llamaweb.celery  # noqa: F401
