"""The only way to a conversation, a message or a turn.

Absent, deleted, somebody else's, or asked for by an account that isn't active: the same error.
Somebody who may read but not write learns that, because they know already that it exists.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.db.models import Exists, OuterRef, Q, QuerySet

from conversations.models import Conversation, Message, Share, Turn
from llamaweb.lib.errors import ForbiddenError, NotFoundError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

NO_CONVERSATION = "there is no such conversation"
NO_MESSAGE = "there is no such message"
NO_TURN = "there is no such turn"
READ_ONLY = "this conversation is shared with you to read only"
ID_RE = re.compile(r"[A-Za-z0-9-]{1,40}")  # the database isn't asked for anything else
OWNER_ONLY = "only the owner of a conversation may do this"


def is_id(value: str) -> bool:
    """Whether `value` can be an id at all."""
    return ID_RE.fullmatch(value) is not None


def conversations_of(user: User) -> QuerySet[Conversation]:
    """All living conversations that `user` may read; none for an account that isn't active."""
    is_shared = Share.objects.filter(conversation=OuterRef("pk"), user_id=user.pk)
    is_active = get_user_model().objects.filter(pk=user.pk, is_active=True)
    return Conversation.objects.filter(
        Q(owner_id=user.pk) | Exists(is_shared), Exists(is_active), deleted_at=None
    )


def access_conversation(
    user: User,
    conversation_id: str,
    *,
    write: bool = False,
    own: bool = False,
    lock: bool = False,
) -> Conversation:
    """A living conversation. `own`: for what only its owner may do. `lock`: hold its row until the
    transaction ends; nothing of the conversation changes without that.

    Raises:
        NotFoundError: absent, deleted or not this user's.
        ForbiddenError: shared with this user, but not for this.
    """
    return _conversation(user, conversation_id, NO_CONVERSATION, write=write, own=own, lock=lock)


def access_deleted_conversation(user: User, conversation_id: str) -> Conversation:
    """A conversation that its owner deleted and may restore, locked.

    Raises:
        NotFoundError: absent, not deleted or not this user's.
    """
    if not is_id(conversation_id):
        raise NotFoundError(NO_CONVERSATION)
    is_active = get_user_model().objects.filter(pk=user.pk, is_active=True)
    conversation = (
        Conversation.objects.select_for_update(of=("self",))
        .filter(Exists(is_active), id=conversation_id, owner_id=user.pk, deleted_at__isnull=False)
        .first()
    )
    if conversation is None:
        raise NotFoundError(NO_CONVERSATION)
    return conversation


def access_message(
    user: User, message_id: str, *, write: bool = False, lock: bool = False
) -> Message:
    """A living message, `conversation` loaded (and locked with `lock`).

    Raises:
        NotFoundError: absent, deleted or not this user's.
        ForbiddenError: as of `access_conversation`.
    """
    if not is_id(message_id):
        raise NotFoundError(NO_MESSAGE)
    home = Message.objects.filter(id=message_id).values_list("conversation_id", flat=True).first()
    conversation = _conversation(user, home, NO_MESSAGE, write=write, lock=lock)
    message = Message.objects.filter(id=message_id, deleted_at=None).first()  # under the lock
    if message is None:
        raise NotFoundError(NO_MESSAGE)
    message.conversation = conversation
    return message


def access_turn(user: User, turn_id: str, *, write: bool = False, lock: bool = False) -> Turn:
    """A turn whose answer isn't deleted, `conversation` loaded (and locked with `lock`).

    Raises:
        NotFoundError: absent, deleted or not this user's.
        ForbiddenError: as of `access_conversation`.
    """
    if not is_id(turn_id):
        raise NotFoundError(NO_TURN)
    home = Turn.objects.filter(id=turn_id).values_list("conversation_id", flat=True).first()
    conversation = _conversation(user, home, NO_TURN, write=write, lock=lock)
    turn = Turn.objects.filter(id=turn_id, answer__deleted_at=None).select_related("answer").first()
    if turn is None:
        raise NotFoundError(NO_TURN)
    turn.conversation = conversation
    return turn


def _conversation(
    user: User,
    conversation_id: str | None,
    absent: str,
    *,
    write: bool = False,
    own: bool = False,
    lock: bool = False,
) -> Conversation:
    if conversation_id is None or not is_id(conversation_id):
        raise NotFoundError(absent)
    rows = conversations_of(user)
    if lock:
        rows = rows.select_for_update(of=("self",))
    conversation = rows.filter(id=conversation_id).first()
    if conversation is None:
        raise NotFoundError(absent)
    if conversation.owner_id == user.pk:
        return conversation
    if own:
        raise ForbiddenError(OWNER_ONLY)
    if write and not conversation.shares.filter(user_id=user.pk, can_write=True).exists():
        raise ForbiddenError(READ_ONLY)
    return conversation
