"""Regenerating, editing and deleting messages. Nothing disappears but what is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from conversations.access import access_message
from conversations.changes import conversation_bump
from conversations.models import OPEN_STATES, Conversation, Message, Turn
from conversations.parts import Part, text_of
from conversations.services.nodes import (
    message_add,
    model_for,
    parts_from_person,
    refuse_streaming,
    tree_of,
    turn_known,
)
from conversations.services.turns import answer_again, message_ask
from conversations.titles import title_from
from conversations.turns.events import TurnEvent, What
from conversations.turns.runner import turn_apply
from llamaweb.lib.errors import InvalidError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User


@dataclass(frozen=True, slots=True)
class Edit:
    """The message with the new text, and the turn that answers it, if one was started."""

    message: Message
    turn: Turn | None = None


def message_regenerate(
    *, user: User, message_id: str, model_name: str | None = None, client_key: str = ""
) -> Turn:
    """Another answer beside this one; to a person's message: an answer to it.

    Raises:
        InvalidError: an answer without a message before it.
        BusyError: too many answers are being written.
        NotFoundError, ForbiddenError: as of `access_message`; no such model.
    """
    with transaction.atomic():
        message = access_message(user, message_id, write=True, lock=True)
        conversation = message.conversation
        known = turn_known(conversation, user, client_key)
        if known is not None:
            return known
        asked = message.parent if message.role == Message.Role.ASSISTANT else message
        if asked is None:
            raise InvalidError("there is no message that this one answers", param="message_id")
        refuse_streaming(asked)
        return answer_again(
            conversation,
            user=user,
            user_message=asked,
            model=model_for(user, conversation, model_name),
            client_key=client_key,
        )


def message_edit(
    *,
    user: User,
    message_id: str,
    parts: Sequence[Part],
    in_place: bool = False,
    model_name: str | None = None,
    client_key: str = "",
) -> Edit:
    """Write a message anew. A person's: beside the old one, with a new turn that answers it. An
    answer: beside the old one, as it stands. `in_place`: the old text is replaced, what follows
    stays, nothing is answered. `client_key`: sending the same request again makes nothing twice.

    Raises:
        InvalidError: the new text is out of bounds.
        BusyError: the answer is still being written, or too many are.
        NotFoundError, ForbiddenError: as of `access_message`; no such model.
    """
    stored = parts_from_person(parts)
    with transaction.atomic():
        message = access_message(user, message_id, write=True, lock=True)
        conversation = message.conversation
        known = turn_known(conversation, user, client_key)
        if known is not None:
            return Edit(known.user_message, known)
        refuse_streaming(message)
        if in_place:
            return Edit(_replace(conversation, message, stored))
        if message.role != Message.Role.USER:
            same = _newest_beside(message) if client_key else None
            if same is not None and same.edited_at is not None and same.parts == stored:
                return Edit(same)  # asked again after a lost reply
            return Edit(_add_beside(conversation, message, stored))
        turn = message_ask(
            conversation,
            user=user,
            parent=message.parent,
            parts=stored,
            title=title_from(text_of(parts)),
            model=model_for(user, conversation, model_name),
            client_key=client_key,
        )
        return Edit(turn.user_message, turn)


def _replace(
    conversation: Conversation, message: Message, parts: list[dict[str, object]]
) -> Message:
    message.parts = parts
    message.edited_at = timezone.now()
    message.revision = conversation_bump(conversation)
    message.save(update_fields=["parts", "edited_at", "revision"])
    return message


def _newest_beside(message: Message) -> Message | None:
    """The newest living sibling of a message of a locked conversation."""
    conversation = message.conversation
    rows = conversation.messages.filter(parent_id=message.parent_id, deleted_at=None)
    newest = rows.exclude(id=message.id).order_by("-number").first()
    if newest is not None:
        newest.conversation = conversation
    return newest


def _add_beside(
    conversation: Conversation, message: Message, parts: list[dict[str, object]]
) -> Message:
    number = conversation.last_number + 1
    revision = conversation_bump(conversation, is_activity=True, last_number=number)
    beside = message_add(
        conversation,
        parent=message.parent,
        role=Message.Role(message.role),
        parts=parts,
        revision=revision,
        number=number,
        model_name=message.model_name,
    )
    beside.edited_at = beside.created_at
    beside.save(update_fields=["edited_at"])
    Conversation.objects.filter(id=conversation.id).update(current_leaf=beside)
    return beside


def message_delete(*, user: User, message_id: str) -> Conversation:
    """Delete a message and all that follows it. Answers being written are cancelled and stay
    deleted; the text is gone at once.

    Raises:
        NotFoundError, ForbiddenError: as of `access_message`.
    """
    with transaction.atomic():
        message = access_message(user, message_id, write=True, lock=True)
        conversation = message.conversation
        tree = tree_of(conversation)
        branch = tree.branch(message.id)
        leaf_id = tree.leaf_after_delete(message.id, conversation.current_leaf_id)
        revision = conversation_bump(conversation, current_leaf_id=leaf_id)
        turns = Turn.objects.filter(conversation=conversation, answer__in=branch)
        turns.update(revision=revision)  # readers learn that they are gone
        for turn in turns.filter(state__in=OPEN_STATES).select_related("answer"):
            turn_apply(turn, TurnEvent(What.DELETE), revision=revision)
        rows = conversation.messages.filter(id__in=branch)
        rows.filter(state=Message.State.STREAMING).update(state=Message.State.STOPPED)
        rows.update(parts=[], error_message="", deleted_at=timezone.now(), revision=revision)
    return conversation
