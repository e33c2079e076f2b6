"""The one mapper from rows to what readers get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversations.contracts import ConversationView, MessageView, TurnView
from conversations.models import OPEN_STATES, Conversation, Message, Turn

if TYPE_CHECKING:
    from llamaweb.accounts.models import User


def conversation_view(
    conversation: Conversation, user: User, *, can_write: bool, is_running: bool
) -> ConversationView:
    """A conversation as `user` sees it."""
    is_owner = conversation.owner_id == user.pk
    return ConversationView(
        id=conversation.id,
        title=conversation.title,
        title_is_custom=conversation.title_is_custom,
        model_name=conversation.model_name,
        current_leaf_id=conversation.current_leaf_id,
        revision=conversation.revision,
        created_at=conversation.created_at,
        updated_at=conversation.updated_at,
        is_owner=is_owner,
        can_write=is_owner or can_write,
        is_running=is_running,
    )


def message_view(message: Message) -> MessageView:
    """A message as everybody who may read it sees it."""
    return MessageView(
        id=message.id,
        parent_id=message.parent_id,
        number=message.number,
        revision=message.revision,
        role=message.role,
        state=message.state,
        parts=message.typed_parts(),
        created_at=message.created_at,
        edited_at=message.edited_at,
        model_name=message.model_name,
        finish_reason=message.finish_reason,
        error_code=message.error_code,
        error_message=message.error_message,
        prompt_tokens=message.prompt_tokens,
        completion_tokens=message.completion_tokens,
        cached_tokens=message.cached_tokens,
        is_deleted=message.deleted_at is not None,
    )


def turn_view(turn: Turn) -> TurnView:
    """A turn, its answer loaded."""
    is_open = turn.state in OPEN_STATES
    return TurnView(
        id=turn.id,
        user_message_id=turn.user_message_id,
        answer_id=turn.answer_id,
        revision=turn.revision,
        state=turn.state,
        is_stopping=is_open and turn.stop_requested_at is not None,
        can_retry=not is_open and turn.state != Turn.State.FINISHED,
        generation_id=turn.generation_id,
        model_name=turn.answer.model_name,
        attempt=turn.attempt,
        error_code=turn.error_code,
        created_at=turn.created_at,
        ended_at=turn.ended_at,
        is_deleted=turn.answer.deleted_at is not None,
    )
