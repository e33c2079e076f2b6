"""What an administrator may do with somebody's conversation: take it away, unread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from conversations.changes import conversation_bump
from conversations.models import OPEN_STATES, Conversation
from conversations.turns.events import TurnEvent, What
from conversations.turns.runner import turn_apply
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record

if TYPE_CHECKING:
    from llamaweb.accounts.models import User


def conversation_delete_by(
    *, conversation_id: str, actor: User, address: str | None = None
) -> bool:
    """Delete a conversation as its owner would: what is being written stops, and the owner can
    restore it for a day. False: it is gone already.
    """
    with transaction.atomic():
        rows = Conversation.objects.select_for_update(of=("self",)).select_related("owner")
        row = rows.filter(id=conversation_id, deleted_at=None).first()
        if row is None:
            return False
        revision = conversation_bump(row, deleted_at=timezone.now())
        for turn in row.turns.filter(state__in=OPEN_STATES).select_related("answer"):
            turn_apply(turn, TurnEvent(What.STOP), revision=revision)
        audit_record(
            action=AuditAction.CONVERSATION_DELETED,
            actor=actor,
            target=row,
            address=address,
            owner=row.owner.get_username(),
        )
    return True
