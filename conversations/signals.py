"""What must happen whoever removes a row: a purge, the admin, or the removal of an owner."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models.signals import pre_delete
from django.dispatch import receiver

from conversations.changes import conversation_lock
from conversations.feed import feed_forget
from conversations.models import Conversation
from conversations.removal import removal_lock
from llamaweb.accounts.models import users_leave


@receiver(users_leave)
def _lock(user_ids: Collection[int], **_kwargs: Any) -> None:
    removal_lock(user_ids)


@receiver(pre_delete, sender=Conversation)
def _forget(instance: Conversation, **_kwargs: Any) -> None:
    """Inside the transaction of the removal; of several, `users_leave` has locked all before."""
    feed_forget(conversation_lock(instance.id))
