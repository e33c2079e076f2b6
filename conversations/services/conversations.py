"""Making, naming, deleting and restoring conversations."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from conversations.access import access_conversation, access_deleted_conversation
from conversations.changes import conversation_bump
from conversations.models import OPEN_STATES, Conversation, Turn
from conversations.models.conversation import TITLE_LEN
from conversations.services.begin import conversation_begin
from conversations.services.nodes import tree_of
from conversations.titles import title_clean
from conversations.turns.events import TurnEvent, What
from conversations.turns.runner import turn_apply
from inference import api
from llamaweb.lib.errors import InvalidError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

UNDO_KEEP = timedelta(hours=24)  # how long a deleted conversation can be restored
PURGE_LIMIT = 50  # conversations removed in one run


def conversation_create(
    *, user: User, title: str = "", model_name: str = "", client_key: str = ""
) -> Conversation:
    """An empty conversation of `user`'s. Without a title, the first message gives one.
    `client_key`: sending the same request again gives the same conversation.

    Raises:
        InvalidError: the title is too long, or no client key.
        NotFoundError: there is no such model, the account is off, or the conversation of this key
            was deleted.
    """
    name = _title(title) if title else ""
    with transaction.atomic():
        return conversation_begin(
            user=user, title=name, model_name=model_name, client_key=client_key
        )


def conversation_rename(*, user: User, conversation_id: str, title: str) -> Conversation:
    """Give a title that stays, whatever is written later.

    Raises:
        InvalidError: the title is empty or too long.
        NotFoundError, ForbiddenError: as of `access_conversation`.
    """
    name = _title(title)
    with transaction.atomic():
        conversation = access_conversation(user, conversation_id, write=True, lock=True)
        if (conversation.title, conversation.title_is_custom) != (name, True):
            conversation_bump(conversation, title=name, title_is_custom=True)
    return conversation


def _title(title: str) -> str:
    name = title_clean(title)
    if not 0 < len(name) <= TITLE_LEN:
        raise InvalidError(f"the title must have 1 to {TITLE_LEN} characters", param="title")
    return name


def conversation_delete(*, user: User, conversation_id: str) -> Conversation:
    """Take a conversation away, to be restored within UNDO_KEEP. What is being written is stopped
    and keeps the text it has; engines forget what they hold of it.

    Raises:
        NotFoundError, ForbiddenError: as of `access_conversation`; only the owner may.
    """
    with transaction.atomic():
        conversation = access_conversation(user, conversation_id, own=True, lock=True)
        revision = conversation_bump(conversation, deleted_at=timezone.now())
        turns = conversation.turns.filter(state__in=OPEN_STATES).select_related("answer")
        for turn in turns:
            turn_apply(turn, TurnEvent(What.STOP), revision=revision)
        transaction.on_commit(partial(api.cache_forget_now, conversations=(str(conversation.id),)))
    return conversation


def conversation_restore(*, user: User, conversation_id: str) -> Conversation:
    """Undo `conversation_delete`.

    Raises:
        NotFoundError: absent, not deleted, removed already, or not this user's.
    """
    with transaction.atomic():
        conversation = access_deleted_conversation(user, conversation_id)
        conversation_bump(conversation, deleted_at=None)
    return conversation


def conversation_purge(now: datetime | None = None) -> int:
    """Remove for good what was deleted longer than UNDO_KEEP ago and has nothing running."""
    before = (now or timezone.now()) - UNDO_KEEP
    busy = Turn.objects.filter(cancel_pending=True) | Turn.objects.filter(state__in=OPEN_STATES)
    ids = list(
        Conversation.objects.filter(deleted_at__lte=before)
        .exclude(id__in=busy.values("conversation_id"))
        .order_by("deleted_at")
        .values_list("id", flat=True)[:PURGE_LIMIT]
    )
    count = 0
    for conversation_id in ids:
        with transaction.atomic():
            rows = Conversation.objects.select_for_update(of=("self",))
            row = rows.filter(id=conversation_id, deleted_at__lte=before).first()
            if row is not None:
                row.delete()
                count += 1
    return count


def leaf_select(*, user: User, conversation_id: str, message_id: str) -> Conversation:
    """Show another branch: the one of `message_id`, to the end of its newest messages.

    A leaf names its branch exactly; asking for it again changes nothing.

    Raises:
        NotFoundError: absent, not this user's, or in another conversation.
        ForbiddenError: as of `access_conversation`.
    """
    with transaction.atomic():
        conversation = access_conversation(user, conversation_id, write=True, lock=True)
        leaf_id = tree_of(conversation).leaf_below(message_id)
        if leaf_id != conversation.current_leaf_id:
            conversation_bump(conversation, current_leaf_id=leaf_id)
    return conversation
