"""Carries out what the machine decides in one transaction; the queue hears after the commit."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from conversations.changes import conversation_bump, conversation_lock
from conversations.models import Conversation, Message, Turn
from conversations.turns.events import (
    CancelGeneration,
    CancelReason,
    CreateGeneration,
    StoreAnswer,
    TurnEvent,
    What,
)
from conversations.turns.machine import TurnState, decide
from conversations.turns.store import (
    answer_store,
    cancel_settled,
    error_of,
    state_of,
    turn_save,
)
from inference import api
from inference.api import GenerationResult
from inference.protocol.requests import GenerateRequest
from llamaweb.lib.errors import UnavailableError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

log = logging.getLogger(__name__)

ENDS: dict[str, What] = {
    "finished": What.GENERATION_FINISHED,  # no tools are offered yet, so none can be asked for
    "cancelled": What.GENERATION_CANCELLED,
    "failed": What.GENERATION_FAILED,
    "interrupted": What.GENERATION_INTERRUPTED,
}


def turn_begin(
    *,
    conversation: Conversation,
    user: User,
    user_message: Message,
    answer: Message,
    request: GenerateRequest,
    revision: int,
    client_key: str = "",
    retry_of: Turn | None = None,
) -> Turn:
    """Store a turn and its first generation; inside the transaction that stores the answer."""
    after, commands = decide(TurnState(), TurnEvent(What.START, request.generation_id))
    assert commands == (CreateGeneration(request.generation_id),)
    now = timezone.now()
    turn = Turn.objects.create(
        conversation=conversation,
        started_by=user,
        user_message=user_message,
        answer=answer,
        retry_of=retry_of,
        client_key=client_key,
        state=after.status.value,
        revision=revision,
        generation_id=after.generation_id,
        num_rounds=after.num_rounds,
        attempt=retry_of.attempt + 1 if retry_of else 1,
        heartbeat_at=now,
        created_at=now,
    )
    api.generation_create(owner=user, request=request)
    return turn


def turn_apply(
    turn: Turn, event: TurnEvent, *, revision: int, result: GenerationResult | None = None
) -> bool:
    """Move a turn of a locked conversation; False if somebody else moved it first.

    Raises:
        IllegalMove: the machine has no such move.
    """
    after, commands = decide(state_of(turn), event)
    values: dict[str, object] = {}
    if not after.is_generating:
        values["cancel_pending"] = False
    for command in commands:
        if isinstance(command, CancelGeneration):
            values |= {"cancel_pending": True, "cancel_by": command.by}
        elif isinstance(command, StoreAnswer) and command.state in ("failed", "interrupted"):
            values["error_code"] = error_of(result)[0]
    if not turn_save(turn, after, revision=revision, **values):
        return False
    for command in commands:
        if isinstance(command, StoreAnswer):
            answer_store(turn.answer_id, command.state, result, revision=revision)
        elif isinstance(command, CancelGeneration):
            transaction.on_commit(
                partial(generation_cancel, turn_model(turn), command.generation_id, command.by)
            )
        else:
            raise NotImplementedError(type(command).__name__)  # tools aren't run yet
    return True


def turn_model(turn: Turn) -> str:
    """The model that answers."""
    return turn.answer.model_name


def generation_cancel(model: str, generation_id: str, by: CancelReason) -> bool:
    """Ask for the end now; if the queue can't be reached, the sweep asks again."""
    try:
        return api.generation_cancel_now(model, generation_id, by)
    except UnavailableError as error:
        log.warning("cancel of generation %s waits for the sweep: %s", generation_id, error)
        return False


def turn_advance(generation_id: str) -> bool:
    """Store the result of an ended generation and move its turn on. Idempotent.

    Returns:
        Whether nothing is left to do; False while the generation goes on.
    """
    result = api.generation_result(generation_id)
    if result is not None and not result.is_ended:
        return False
    turn = Turn.objects.filter(generation_id=generation_id).first()
    if turn is not None:
        _generation_ended(turn, generation_id, result)
    return True


def _generation_ended(turn: Turn, generation_id: str, result: GenerationResult | None) -> None:
    what = What.GENERATION_LOST if result is None else ENDS[result.state]
    with transaction.atomic():
        conversation = Conversation.objects.filter(id=turn.conversation_id).first()
        if conversation is None:
            return  # purged meanwhile
        conversation = conversation_lock(conversation.id)
        turn = Turn.objects.select_related("answer").get(id=turn.id)
        if not state_of(turn).is_generating or turn.generation_id != generation_id:
            cancel_settled(generation_id)
            return
        revision = conversation_bump(conversation, is_activity=True)
        turn_apply(turn, TurnEvent(what, generation_id), revision=revision, result=result)


def turn_started(turn: Turn) -> bool:
    """An engine took the generation of a queued turn; False if it isn't queued any more."""
    with transaction.atomic():
        conversation = conversation_lock(turn.conversation_id)
        turn = Turn.objects.select_related("answer").get(id=turn.id)
        if turn.state != Turn.State.QUEUED or turn.stop_requested_at is not None:
            return False
        revision = conversation_bump(conversation)
        event = TurnEvent(What.GENERATION_STARTED, turn.generation_id)
        return turn_apply(turn, event, revision=revision)


def turn_withdraw(turn: Turn) -> bool:
    """Stop a turn whose person may not have it any more; False if it ended or was stopped."""
    with transaction.atomic():
        conversation = conversation_lock(turn.conversation_id)
        turn = Turn.objects.select_related("answer").get(id=turn.id)
        if not turn.is_open or turn.stop_requested_at is not None:
            return False
        revision = conversation_bump(conversation)
        return turn_apply(turn, TurnEvent(What.STOP), revision=revision)
