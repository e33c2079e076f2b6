"""What a client can do, by name: one table for REST and for the live connection.

Everything here is thin: parse, call the service, map. Synchronous, with queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pydantic

from conversations import services
from conversations.edge.errors import invalid_from
from conversations.edge.schemas import (
    ActResult,
    ConversationCreate,
    ConversationRef,
    ConversationRename,
    In,
    LeafSelect,
    MessageEdit,
    MessageRef,
    MessageRegenerate,
    PartIn,
    TurnRef,
    TurnRetry,
    TurnStart,
)
from conversations.models import Conversation, Turn
from conversations.parts import Part, TextPart
from llamaweb.lib.errors import InvalidError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

A = TypeVar("A", bound=In)


@dataclass(frozen=True, slots=True)
class Act:
    """`schema` of the arguments, and what is done with them."""

    schema: type[In]
    run: Callable[[User, Any], ActResult]


ACTS: dict[str, Act] = {}


def _act(
    name: str, schema: type[A]
) -> Callable[[Callable[[User, A], ActResult]], Callable[[User, A], ActResult]]:
    def register(run: Callable[[User, A], ActResult]) -> Callable[[User, A], ActResult]:
        ACTS[name] = Act(schema, run)
        return run

    return register


def act_run(user: User, name: str, args: Mapping[str, object]) -> ActResult:
    """Do the act `name` in the name of `user`.

    Raises:
        InvalidError: no such act, or arguments that don't fit; names the field.
        LlamawebError: as of the service.
    """
    act = ACTS.get(name)
    if act is None:
        raise InvalidError(f"name must be one of: {', '.join(ACTS)}", param="name")
    try:
        parsed = act.schema.model_validate(args)
    except pydantic.ValidationError as error:
        raise invalid_from(error.errors(include_input=False, include_url=False)) from None
    return act.run(user, parsed)


def _parts(parts: Sequence[PartIn]) -> tuple[Part, ...]:
    return tuple(TextPart(part.text) for part in parts)


def _of_conversation(conversation: Conversation) -> ActResult:
    return ActResult(conversation_id=conversation.id, revision=conversation.revision)


def _of_turn(turn: Turn) -> ActResult:
    return ActResult(
        conversation_id=turn.conversation_id,
        revision=turn.conversation.revision,
        message_id=turn.user_message_id,
        turn_id=turn.id,
        answer_id=turn.answer_id,
    )


@_act("conversation.create", ConversationCreate)
def conversation_create(user: User, args: ConversationCreate) -> ActResult:
    """See `services.conversation_create`."""
    return _of_conversation(
        services.conversation_create(
            user=user,
            title=args.title,
            model_name=args.model_name,
            client_key=args.client_key,
        )
    )


@_act("conversation.rename", ConversationRename)
def conversation_rename(user: User, args: ConversationRename) -> ActResult:
    """See `services.conversation_rename`."""
    return _of_conversation(
        services.conversation_rename(
            user=user, conversation_id=args.conversation_id, title=args.title
        )
    )


@_act("conversation.delete", ConversationRef)
def conversation_delete(user: User, args: ConversationRef) -> ActResult:
    """See `services.conversation_delete`."""
    return _of_conversation(
        services.conversation_delete(user=user, conversation_id=args.conversation_id)
    )


@_act("conversation.restore", ConversationRef)
def conversation_restore(user: User, args: ConversationRef) -> ActResult:
    """See `services.conversation_restore`."""
    return _of_conversation(
        services.conversation_restore(user=user, conversation_id=args.conversation_id)
    )


@_act("leaf.select", LeafSelect)
def leaf_select(user: User, args: LeafSelect) -> ActResult:
    """See `services.leaf_select`; `message_id` is the leaf that became the current one."""
    conversation = services.leaf_select(
        user=user, conversation_id=args.conversation_id, message_id=args.message_id
    )
    result = _of_conversation(conversation)
    return result.model_copy(update={"message_id": conversation.current_leaf_id})


@_act("turn.start", TurnStart)
def turn_start(user: User, args: TurnStart) -> ActResult:
    """See `services.turn_start`."""
    return _of_turn(
        services.turn_start(
            user=user,
            conversation_id=args.conversation_id,
            parts=_parts(args.parts),
            parent_id=args.parent_id,
            model_name=args.model_name,
            client_key=args.client_key,
        )
    )


@_act("turn.stop", TurnRef)
def turn_stop(user: User, args: TurnRef) -> ActResult:
    """See `services.turn_stop`."""
    was_stopped = services.turn_stop(user=user, turn_id=args.turn_id)
    return ActResult(turn_id=args.turn_id, was_stopped=was_stopped)


@_act("turn.answer_now", TurnRef)
def turn_answer_now(user: User, args: TurnRef) -> ActResult:
    """See `services.turn_answer_now`."""
    was_told = services.turn_answer_now(user=user, turn_id=args.turn_id)
    return ActResult(turn_id=args.turn_id, was_told=was_told)


@_act("turn.retry", TurnRetry)
def turn_retry(user: User, args: TurnRetry) -> ActResult:
    """See `services.turn_retry`."""
    return _of_turn(
        services.turn_retry(
            user=user,
            turn_id=args.turn_id,
            model_name=args.model_name,
            client_key=args.client_key,
        )
    )


@_act("message.regenerate", MessageRegenerate)
def message_regenerate(user: User, args: MessageRegenerate) -> ActResult:
    """See `services.message_regenerate`."""
    return _of_turn(
        services.message_regenerate(
            user=user,
            message_id=args.message_id,
            model_name=args.model_name,
            client_key=args.client_key,
        )
    )


@_act("message.edit", MessageEdit)
def message_edit(user: User, args: MessageEdit) -> ActResult:
    """See `services.message_edit`; `message_id` holds the new text."""
    edit = services.message_edit(
        user=user,
        message_id=args.message_id,
        parts=_parts(args.parts),
        in_place=args.in_place,
        model_name=args.model_name,
        client_key=args.client_key,
    )
    if edit.turn is not None:
        return _of_turn(edit.turn)
    result = _of_conversation(edit.message.conversation)
    return result.model_copy(update={"message_id": edit.message.id})


@_act("message.delete", MessageRef)
def message_delete(user: User, args: MessageRef) -> ActResult:
    """See `services.message_delete`."""
    result = _of_conversation(services.message_delete(user=user, message_id=args.message_id))
    return result.model_copy(update={"message_id": args.message_id})
