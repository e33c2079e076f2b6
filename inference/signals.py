"""What must happen here when somebody leaves."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.signals import post_delete
from django.dispatch import receiver

from inference import api


@receiver(post_delete, sender=settings.AUTH_USER_MODEL)
def _forget(instance: Any, **_kwargs: Any) -> None:
    """Engines forget what they hold of a removed account."""
    transaction.on_commit(partial(api.cache_forget_now, owner_key=f"user:{instance.pk}"))
