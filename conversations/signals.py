"""What must happen whoever removes a row: a purge, the admin, or the removal of an owner."""

from __future__ import annotations

from typing import Any

from django.db.models.signals import pre_delete
from django.dispatch import receiver

from conversations.changes import conversation_lock
from conversations.feed import feed_forget
from conversations.models import Conversation


@receiver(pre_delete, sender=Conversation)
def _forget(instance: Conversation, **_kwargs: Any) -> None:
    """Inside the transaction of the removal."""
    feed_forget(conversation_lock(instance.id))
