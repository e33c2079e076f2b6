"""How a conversation changes: lock its row, take the next revision, write it into what changed.

The lock is held until the commit, so revisions of one conversation become visible in their order
and without a hole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.utils import timezone

from conversations.feed import feed_touch
from conversations.models import Conversation

MAX_MESSAGES = 10_000  # in one conversation, deleted ones included


def conversation_lock(conversation_id: str) -> Conversation:
    """The conversation, deleted or not, locked until the transaction ends; for jobs.

    People's acts lock through `conversations.access`.
    """
    return Conversation.objects.select_for_update(of=("self",)).get(id=conversation_id)


def conversation_bump(
    conversation: Conversation,
    *,
    is_activity: bool = False,
    lost_by: Iterable[int] = (),
    **values: Any,
) -> int:
    """Take the next revision of a locked conversation and store `values` in its row; the lists of
    all who may read it learn of it, and those of `lost_by` (ids of users who just lost it).

    `is_activity`: it moves to the top of the list.

    Raises:
        RuntimeError: outside a transaction, or the row isn't locked.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("a change belongs into a transaction")
    before = conversation.revision
    values["revision"] = before + 1
    if is_activity:
        values["updated_at"] = timezone.now()
    changed = Conversation.objects.filter(id=conversation.id, revision=before).update(**values)
    if not changed:
        raise RuntimeError("the conversation changed without its lock")
    for name, value in values.items():
        setattr(conversation, name, value)
    feed_touch(conversation, also=lost_by)
    return before + 1
