"""The sweep: every open turn moves on or ends visibly, whatever died in between."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from conversations.models import Turn
from conversations.turns.events import CancelReason
from conversations.turns.runner import (
    generation_cancel,
    turn_advance,
    turn_model,
    turn_started,
    turn_withdraw,
)
from conversations.turns.store import (
    cancel_settled,
    open_turns,
    pending_cancels,
    touch,
    unwanted_turns,
)
from inference import api
from llamaweb.lib.errors import LlamawebError

log = logging.getLogger(__name__)

SWEEP_BUDGET_S = 4.0  # less than the time between two sweeps
STARTED_AFTER = timedelta(seconds=2)  # shorter waits aren't worth a write


def turn_sweep(now: datetime | None = None) -> dict[str, int]:
    """Bring turns and generations together; run every few seconds and at start.

    Ends turns whose generation ended unseen or is gone, notes which ones an engine has taken,
    stops those of people who may not write there any more (their account is off), and cancels
    again what is to be cancelled and still goes on.
    """
    now = now or timezone.now()
    until_ts = time.monotonic() + SWEEP_BUDGET_S
    done = {"ended": 0, "started": 0, "withdrawn": 0, "cancelled": 0}
    for turn in unwanted_turns(settings.SWEEP_LIMIT):
        done["withdrawn"] += _guarded(turn, turn_withdraw)
    after_id = ""
    while turns := open_turns(after_id, settings.SWEEP_LIMIT):
        after_id = turns[-1].id
        results = api.generation_results(turn.generation_id for turn in turns)
        for turn in turns:
            if time.monotonic() > until_ts:
                log.warning("the sweep of turns ran out of time; the next one goes on")
                return done
            result = results.get(turn.generation_id)
            if turn.state == Turn.State.WAITING_FOR_USER:
                continue
            if result is None or result.is_ended:
                done["ended"] += _guarded(turn, lambda turn: turn_advance(turn.generation_id))
            elif turn.state == Turn.State.QUEUED and now - turn.heartbeat_at >= STARTED_AFTER:
                done["started"] += _guarded(turn, _note_start)
    done["cancelled"] = _sweep_cancels(now)
    return done


def _guarded(turn: Turn, act: Callable[[Turn], bool]) -> bool:
    """One turn that can't be moved must not stop the others."""
    try:
        return act(turn)
    except LlamawebError as error:
        log.warning("turn %s waits for the next sweep: %s", turn.id, error)
    except Exception:
        log.exception("turn %s could not be swept", turn.id)
    return False


def _note_start(turn: Turn) -> bool:
    status = api.generation_status_now(turn_model(turn), turn.generation_id)
    return status is not None and status.state == "running" and turn_started(turn)


def _sweep_cancels(now: datetime) -> int:
    turns = pending_cancels(settings.SWEEP_LIMIT)
    results = api.generation_results(turn.generation_id for turn in turns)
    count = 0
    for turn in turns:
        result = results.get(turn.generation_id)
        if result is None or result.is_ended:
            cancel_settled(turn.generation_id)
            continue
        by: CancelReason = "deleted" if turn.cancel_by == "deleted" else "user"
        count += generation_cancel(turn_model(turn), turn.generation_id, by)
        touch(turn, now)
    return count
