"""Starting, stopping and retrying turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.db import transaction

from conversations.access import access_conversation, access_turn, is_id
from conversations.changes import conversation_bump
from conversations.models import OPEN_STATES, Conversation, Message, Turn
from conversations.parts import Part, text_of
from conversations.services.begin import conversation_begin
from conversations.services.nodes import (
    answer_begin,
    message_add,
    model_for,
    parts_from_person,
    refuse_streaming,
    refuse_too_many,
    turn_known,
)
from conversations.titles import title_from
from conversations.turns.events import TurnEvent, What
from conversations.turns.runner import turn_apply
from inference.api import ModelInfo, reasoning_end_now
from llamaweb.accounts.caller import owner_key_of
from llamaweb.lib.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User


def turn_start(
    *,
    user: User,
    conversation_id: str | None,
    parts: Sequence[Part],
    parent_id: str | None = None,
    model_name: str | None = None,
    client_key: str = "",
) -> Turn:
    """A person's message after `parent_id` (None: the current leaf) and the turn that answers.
    Without a conversation a new one is made.

    Conversation, message, empty answer, turn and generation are committed together, then the
    generation is queued. `client_key`: sending the same request again gives the same turn, in the
    same conversation. The first line of the first message makes the title.

    Raises:
        InvalidError: the message is out of bounds, or the conversation is full.
        BusyError: the parent is still being written, or too many answers are.
        NotFoundError, ForbiddenError: as of `access_conversation`; no such parent or model.
    """
    stored = parts_from_person(parts)
    with transaction.atomic():
        if conversation_id is None:
            conversation = conversation_begin(
                user=user, model_name=model_name or "", client_key=client_key
            )
        else:
            conversation = access_conversation(user, conversation_id, write=True, lock=True)
        known = turn_known(conversation, user, client_key)
        if known is not None:
            return known
        parent = _parent(conversation, parent_id or conversation.current_leaf_id)
        return message_ask(
            conversation,
            user=user,
            parent=parent,
            parts=stored,
            title=title_from(text_of(parts)),
            model=model_for(user, conversation, model_name),
            client_key=client_key,
        )


def _parent(conversation: Conversation, parent_id: str | None) -> Message | None:
    if parent_id is None:
        return None
    messages = conversation.messages.filter(id=parent_id, deleted_at=None)
    parent = messages.first() if is_id(parent_id) else None
    if parent is None:
        raise NotFoundError("there is no such message")
    refuse_streaming(parent)
    return parent


def message_ask(
    conversation: Conversation,
    *,
    user: User,
    parent: Message | None,
    parts: list[dict[str, object]],
    title: str,
    model: ModelInfo,
    client_key: str,
) -> Turn:
    """Store a person's message in a locked conversation, and begin its answer, which becomes the
    current leaf."""
    refuse_too_many(conversation, user)
    number = conversation.last_number + 1
    revision = conversation_bump(conversation, is_activity=True, last_number=number + 1)
    message = message_add(
        conversation,
        parent=parent,
        role=Message.Role.USER,
        parts=parts,
        revision=revision,
        number=number,
    )
    turn = answer_begin(
        conversation,
        user=user,
        user_message=message,
        model=model,
        revision=revision,
        number=number + 1,
        client_key=client_key,
    )
    values: dict[str, object] = {"current_leaf_id": turn.answer_id}
    if not conversation.title and not conversation.title_is_custom:
        values["title"] = title
    _finish_change(conversation, values)
    return turn


def answer_again(
    conversation: Conversation,
    *,
    user: User,
    user_message: Message,
    model: ModelInfo,
    client_key: str,
    retry_of: Turn | None = None,
) -> Turn:
    """Begin another answer to `user_message` in a locked conversation; it becomes the current
    leaf."""
    refuse_too_many(conversation, user)
    number = conversation.last_number + 1
    revision = conversation_bump(conversation, is_activity=True, last_number=number)
    turn = answer_begin(
        conversation,
        user=user,
        user_message=user_message,
        model=model,
        revision=revision,
        number=number,
        client_key=client_key,
        retry_of=retry_of,
    )
    _finish_change(conversation, {"current_leaf_id": turn.answer_id})
    return turn


def _finish_change(conversation: Conversation, values: dict[str, object]) -> None:
    """What could be known only after the messages were stored; same revision, same transaction."""
    Conversation.objects.filter(id=conversation.id).update(**values)
    for name, value in values.items():
        setattr(conversation, name, value)


def turn_stop(*, user: User, turn_id: str) -> bool:
    """Stop a turn: it ends with the text it has, once its generation has ended.

    Returns:
        False: it had ended already.

    Raises:
        NotFoundError, ForbiddenError: as of `access_turn`.
    """
    with transaction.atomic():
        turn = access_turn(user, turn_id, write=True, lock=True)
        if not turn.is_open:
            return False
        revision = conversation_bump(turn.conversation)
        return turn_apply(turn, TurnEvent(What.STOP), revision=revision)


def turn_answer_now(*, user: User, turn_id: str) -> bool:
    """Have the model of a turn end its reasoning, now or as soon as it begins, and answer.

    Returns:
        False: the turn has ended, or its model can't be told.

    Raises:
        NotFoundError, ForbiddenError: as of `access_turn`.
        UnavailableError: Redis can't be reached.
    """
    turn = access_turn(user, turn_id, write=True)
    if not turn.is_open:
        return False
    asked_by = owner_key_of(turn.started_by_id)
    return reasoning_end_now(turn.answer.model_name, turn.generation_id, asked_by) == "ok"


def turn_retry(
    *, user: User, turn_id: str, model_name: str | None = None, client_key: str = ""
) -> Turn:
    """Answer again after an end that wasn't whole. The old answer stays beside the new one.

    A Retry of the same turn that is still going on is returned instead of starting a second one.

    Raises:
        InvalidError: the turn goes on, or its answer is whole.
        BusyError: too many answers are being written.
        NotFoundError, ForbiddenError: as of `access_turn`; no such model.
    """
    with transaction.atomic():
        turn = access_turn(user, turn_id, write=True, lock=True)
        conversation = turn.conversation
        known = turn_known(conversation, user, client_key) or (
            turn.retries.filter(state__in=OPEN_STATES).select_related("answer").first()
        )
        if known is not None:
            return known
        if turn.is_open or turn.state == Turn.State.FINISHED:
            raise InvalidError("only an answer that was stopped or failed can be retried")
        return answer_again(
            conversation,
            user=user,
            user_message=turn.user_message,
            model=model_for(user, conversation, model_name or turn.answer.model_name),
            client_key=client_key,
            retry_of=turn,
        )
