"""Turns and answers as rows; each move is a guarded update under the conversation's lock."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from conversations.models import OPEN_STATES, Message, Share, Turn
from conversations.parts import parts_from_runs, parts_to_json
from conversations.turns.events import AnswerState, Status
from conversations.turns.machine import TurnState
from inference.api import GenerationResult


def state_of(turn: Turn) -> TurnState:
    """Where a stored turn stands."""
    status = Status(turn.state)
    is_generating = status in (Status.QUEUED, Status.RUNNING)
    if is_generating and turn.stop_requested_at is not None:
        status = Status.STOPPING
    return TurnState(status, turn.generation_id, is_generating, turn.num_rounds)


def turn_save(turn: Turn, after: TurnState, *, revision: int, **values: Any) -> bool:
    """Move `turn` to `after`; False if it isn't where it was when it was read."""
    now = timezone.now()
    values |= {
        "generation_id": after.generation_id,
        "num_rounds": after.num_rounds,
        "revision": revision,
        "heartbeat_at": now,
    }
    if after.status is Status.STOPPING:
        values["stop_requested_at"] = turn.stop_requested_at or now
    else:
        values["state"] = after.status.value
    if after.is_terminal:
        values["ended_at"] = now
    changed = Turn.objects.filter(
        id=turn.id,
        state=turn.state,
        generation_id=turn.generation_id,
        stop_requested_at=turn.stop_requested_at,
    ).update(**values)
    if changed:
        for name, value in values.items():
            setattr(turn, name, value)
    return bool(changed)


def answer_store(
    answer_id: str, state: AnswerState, result: GenerationResult | None, *, revision: int
) -> bool:
    """End an answer with what was written; False if it ended or was deleted before.

    Without a result its parts stay as they are.
    """
    values: dict[str, Any] = {"state": state, "revision": revision}
    if result is not None:
        values |= {
            "parts": parts_to_json(parts_from_runs(result.parts)),
            "finish_reason": result.finish_reason,
            "prompt_tokens": result.usage.prompt_tokens,
            "completion_tokens": result.usage.completion_tokens,
            "cached_tokens": result.usage.cached_tokens,
        }
    if state in ("failed", "interrupted"):
        code, message = error_of(result)
        values |= {"error_code": code, "error_message": message}
    return bool(
        Message.objects.filter(id=answer_id, state=Message.State.STREAMING, deleted_at=None).update(
            **values
        )
    )


def error_of(result: GenerationResult | None) -> tuple[str, str]:
    """Code and sentence of an end that wasn't whole."""
    if result is None:
        return "generation_lost", "nothing is known of this answer any more; try again"
    return result.error_code, result.error_message


def cancel_settled(generation_id: str) -> bool:
    """The generation is known to have ended: nothing is left to cancel."""
    return bool(
        Turn.objects.filter(generation_id=generation_id, cancel_pending=True).update(
            cancel_pending=False
        )
    )


def open_turns(after_id: str, limit: int) -> list[Turn]:
    """Open turns by id, a page at a time."""
    turns = Turn.objects.filter(state__in=OPEN_STATES, id__gt=after_id).select_related("answer")
    return list(turns.order_by("id")[:limit])


def unwanted_turns(limit: int) -> list[Turn]:
    """Open turns that nobody has stopped, of people whose account is off, or who may not write in
    the conversation any more."""
    is_active = get_user_model().objects.filter(pk=OuterRef("started_by"), is_active=True)
    may_write = Share.objects.filter(
        conversation=OuterRef("conversation"), user=OuterRef("started_by"), can_write=True
    )
    is_own = Q(conversation__owner=F("started_by"))
    turns = Turn.objects.filter(state__in=OPEN_STATES, stop_requested_at=None).exclude(
        Q(Exists(is_active)) & (is_own | Q(Exists(may_write)))
    )
    return list(turns.order_by("id")[:limit])


def pending_cancels(limit: int) -> list[Turn]:
    """Turns whose generation is to end, the longest untouched first."""
    turns = Turn.objects.filter(cancel_pending=True).select_related("answer")
    return list(turns.order_by("heartbeat_at")[:limit])


def touch(turn: Turn, now: datetime) -> None:
    """Somebody looked after `turn`; no revision, because nobody sees it."""
    Turn.objects.filter(id=turn.id).update(heartbeat_at=now)
