"""Sharing a conversation with somebody, and taking that back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from conversations.access import access_conversation
from conversations.changes import conversation_bump
from conversations.models import OPEN_STATES, Conversation, Share
from conversations.turns.events import TurnEvent, What
from conversations.turns.runner import turn_apply
from llamaweb.lib.errors import InvalidError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

MAX_SHARES = 50  # people one conversation is shared with: each change is told to all of them


def share_grant(
    *, user: User, conversation_id: str, to: User, can_write: bool = False
) -> Conversation:
    """Let somebody read a conversation, or write in it too; also changes what they may.

    Raises:
        InvalidError: to oneself, or to too many people.
        NotFoundError, ForbiddenError: as of `access_conversation`; only the owner may.
    """
    with transaction.atomic():
        conversation = access_conversation(user, conversation_id, own=True, lock=True)
        if to.pk == conversation.owner_id:
            raise InvalidError("the conversation is yours already", param="to")
        share = conversation.shares.filter(user=to).first()
        if share is not None and share.can_write == can_write:
            return conversation
        if share is None and conversation.shares.count() >= MAX_SHARES:
            raise InvalidError(
                f"a conversation can be shared with at most {MAX_SHARES} people", param="to"
            )
        Share.objects.update_or_create(
            conversation=conversation, user=to, defaults={"can_write": can_write}
        )
        revision = conversation_bump(conversation)
        if not can_write:
            _stop_turns(conversation, to, revision)
    return conversation


def share_revoke(*, user: User, conversation_id: str, to: User) -> Conversation:
    """Take a share back. What is being written for that person is stopped and keeps its text.

    Raises:
        NotFoundError, ForbiddenError: as of `access_conversation`; only the owner may.
    """
    with transaction.atomic():
        conversation = access_conversation(user, conversation_id, own=True, lock=True)
        num_deleted, _ = conversation.shares.filter(user=to).delete()
        if num_deleted:
            revision = conversation_bump(conversation, lost_by=[to.pk])
            _stop_turns(conversation, to, revision)
    return conversation


def _stop_turns(conversation: Conversation, user: User, revision: int) -> None:
    turns = conversation.turns.filter(started_by=user, state__in=OPEN_STATES)
    for turn in turns.select_related("answer"):
        turn_apply(turn, TurnEvent(What.STOP), revision=revision)
