"""Owned generations: committed first, queued after, stored when they end.

Every change of state is a guarded update: the one who changed the row goes on.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from inference import bus
from inference.models import Generation
from inference.protocol.accounts import Account
from inference.protocol.codec import DecodeError, decode_request, encode_request
from inference.protocol.events import Cancelled, Entry, Failed, Finished, Snapshot
from inference.protocol.fold import EMPTY, fold, runs_of
from inference.protocol.requests import GenerateRequest
from inference.queues.contract import START, Position, Queue
from inference.registry.response_log import cuts_of
from inference.registry.standing import Standing, standings_lost
from inference.response_models import StoredResponse
from llamaweb.lib.errors import BusyError, InvalidError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

log = logging.getLogger(__name__)

ON_FINISH = "generation_finalise"
MISSING_GRACE_S = 3.0  # a living engine may still write back what Redis lost
READ_LIMIT = 4096
MAX_OPEN = 256  # an owner's generations that haven't ended
OPEN_RETRY_S = 10.0
SWEEP_BUDGET_S = 4.0  # less than the time between two sweeps


def generation_create(*, owner: User, request: GenerateRequest) -> Generation:
    """Store an owned generation and queue it after commit.

    A queue that can't take it now doesn't undo the row: the sweep submits it later.

    Raises:
        InvalidError, BusyError: as of `generation_record`.
    """
    generation = generation_record(owner=owner, request=request)
    transaction.on_commit(lambda: generation_submit_committed(request))
    return generation


def generation_record(*, owner: User, request: GenerateRequest) -> Generation:
    """Store an owned generation; the caller submits it after commit, or else the sweep does.

    Raises:
        InvalidError: the request isn't one that goes on without a reader.
        BusyError: the owner has too many that haven't ended.
    """
    if not request.keep or request.on_finish not in settings.ON_FINISH_TASKS:
        raise InvalidError("an owned generation needs keep and an on_finish of the allow-list")
    if Generation.objects.filter(owner=owner, state=Generation.State.QUEUED).count() >= MAX_OPEN:
        raise BusyError(
            f"{MAX_OPEN} of your answers are waiting or being written; that is the limit",
            reason="open_generations",
            retry_after_s=OPEN_RETRY_S,
        )
    return Generation.objects.create(
        id=request.generation_id,
        owner=owner,
        model_name=request.model,
        request=encode_request(request),
    )


def generation_submit_committed(request: GenerateRequest) -> Position | None:
    """Queue what is committed; None when the queue can't take it now."""
    try:
        return bus.sync_queue().submit(request)
    except (BusyError, UnavailableError) as error:
        log.warning("generation %s waits for the sweep: %s", request.generation_id, error)
        return None


def generation_get(*, owner: User, generation_id: str) -> Generation:
    """An owned generation.

    Raises:
        NotFoundError: absent or not this owner's.
    """
    generation = Generation.objects.filter(id=generation_id, owner=owner).first()
    if generation is None:
        raise NotFoundError("there is no such generation")
    return generation


def generation_finalise(generation_id: str) -> bool:
    """Store the result of an ended generation and acknowledge it. Idempotent.

    Returns:
        Whether the row is final; False while the generation goes on.
    """
    generation = Generation.objects.filter(id=generation_id).first()
    queue = bus.sync_queue()
    if generation is None:  # deleted with its owner while it ran: nobody waits for it any more
        for model in queue.models():
            queue.finished_ack(model, generation_id)
        return False
    if generation.state == Generation.State.QUEUED:
        log = read_log(queue, generation.model_name, generation_id)
        if log is None or log.snapshot.terminal is None:
            return False
        with transaction.atomic():
            if generation_store(generation_id, log.snapshot):
                _keep_cuts(generation_id, log)
    queue.finished_ack(generation.model_name, generation_id)
    return True


@dataclass(frozen=True, slots=True)
class WholeLog:
    """A log to its end: all of it as one snapshot, and its `entries`, those behind `before` where
    that stands for the first ones."""

    snapshot: Snapshot
    entries: tuple[Entry, ...]
    before: Snapshot | None = None


def read_all(queue: Queue, model: str, generation_id: str) -> Snapshot | None:
    """The whole log as one snapshot; None when nothing is kept of it."""
    log = read_log(queue, model, generation_id)
    return None if log is None else log.snapshot


def read_log(queue: Queue, model: str, generation_id: str) -> WholeLog | None:
    """The whole log; None when nothing is kept of it."""
    cursor, before = START, None
    entries: list[Entry] = []
    while True:
        read = queue.read(model, generation_id, cursor, limit=READ_LIMIT)
        if read.gone:
            return None
        if read.reset is not None:
            before, entries = read.reset, []
        if not read.entries and read.reset is None:
            return WholeLog(fold(before or EMPTY, entries), tuple(entries), before)
        entries += read.entries
        cursor = read.cursor


def _keep_cuts(generation_id: str, log: WholeLog) -> None:
    """What a response of the API needs beside its text, if the generation is one's."""
    row = StoredResponse.objects.filter(generation_id=generation_id)
    if row.exists():
        num_chars = sum(len(text) for _, text in log.snapshot.parts)
        row.update(log=cuts_of(log.entries, log.before), size=F("size") + num_chars)


def generation_store(generation_id: str, snapshot: Snapshot) -> bool:
    """Write the end of a generation; False if somebody else did."""
    terminal = snapshot.terminal
    clean = replace(
        snapshot,
        parts=tuple((kind, _without_nul(text)) for kind, text in snapshot.parts),
        calls=tuple(
            replace(call, id=_without_nul(call.id), name=_without_nul(call.name))
            for call in snapshot.calls
        ),
    )
    values: dict[str, object] = {
        "parts": [list(run) for run in runs_of(clean)],
        "ended_at": timezone.now(),
        "missing_since": None,
    }
    if isinstance(terminal, Finished):
        values |= {"state": Generation.State.FINISHED, "finish_reason": terminal.reason}
    elif isinstance(terminal, Cancelled):
        values |= {"state": Generation.State.CANCELLED, "finish_reason": "cancelled"}
    elif isinstance(terminal, Failed):
        values |= {
            "state": Generation.State.FAILED,
            "finish_reason": "error",
            "error_code": terminal.code,
            "error_message": terminal.message,
        }
    else:
        raise ValueError("the log has no end")
    values |= {
        "prompt_tokens": terminal.usage.prompt_tokens,
        "completion_tokens": terminal.usage.completion_tokens,
        "cached_tokens": terminal.usage.cached_tokens,
    }
    return bool(
        Generation.objects.filter(id=generation_id, state=Generation.State.QUEUED).update(**values)
    )


def _without_nul(text: str) -> str:
    """PostgreSQL's JSON takes none, and a byte-level vocabulary or another server can write it."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def generation_sweep(now: datetime | None = None) -> dict[str, int]:
    """Bring open rows and the queue together again; run every few seconds and at start.

    Submits what was committed but isn't queued, stores what ended unseen, cancels responses that
    whoever asked may not have any more, and interrupts what outlived its deadline without anybody
    knowing of it.
    """
    now = now or timezone.now()
    until_ts = time.monotonic() + SWEEP_BUDGET_S
    queue = bus.sync_queue()
    done = {"submitted": 0, "stored": 0, "interrupted": 0, "cancelled": 0}
    for model in queue.models():
        queue.reap(model)
    rows = _open_rows()
    lost = _lost(rows)
    for generation in rows:
        if time.monotonic() > until_ts:
            log.warning("the sweep ran out of time; the next one goes on")
            break
        _sweep_cursor.passed(generation)
        try:
            what = _sweep_row(queue, generation, now, is_lost=generation.id in lost)
        except UnavailableError:
            raise
        except Exception:
            log.exception("generation %s could not be swept", generation.id)
            continue
        if what is not None:
            done[what] += 1
    return done


def _lost(rows: list[Generation]) -> set[str]:
    """Ids of those responses that whoever asked may not have any more: the web process that looked
    after them may be gone. Of chats the turns are looked after."""
    found = StoredResponse.objects.filter(generation_id__in=[row.id for row in rows])
    responses = set(found.values_list("generation_id", flat=True))
    asked: dict[str, Standing] = {}
    for row in rows:
        account = _account(row) if row.id in responses else None
        if account is not None:
            asked[row.id] = Standing(account.user_id, account.key_id, row.model_name)
    lost = standings_lost(set(asked.values())) if asked else set()
    return {row_id for row_id, standing in asked.items() if standing in lost}


def _account(generation: Generation) -> Account | None:
    try:
        return Account.read(decode_request(generation.request).account)
    except DecodeError:
        log.warning("the request of generation %s can't be read", generation.id)
        return None


def _sweep_row(queue: Queue, generation: Generation, now: datetime, *, is_lost: bool) -> str | None:
    """Bring one open row and the queue together; returns what was done."""
    status = queue.status(generation.model_name, generation.id)
    if status is None:
        return _sweep_missing(generation, now, is_lost=is_lost)
    if status.state == "ended":
        return "stored" if generation_finalise(generation.id) else None
    if is_lost and status.cancel_requested is None:
        queue.cancel(generation.model_name, generation.id, "owner")
        return "cancelled"
    if generation.missing_since is not None:
        Generation.objects.filter(id=generation.id).update(missing_since=None)
    return None


class _SweepCursor:
    """Where this process's last sweep ended: no backlog of one user hides the rows behind it."""

    def __init__(self) -> None:
        self.after: tuple[datetime, str] | None = None

    def passed(self, generation: Generation) -> None:
        """This row was looked at."""
        self.after = (generation.created_at, generation.id)


_sweep_cursor = _SweepCursor()


def _open_rows() -> list[Generation]:
    """The next open rows, from the start again after the last one."""
    rows = Generation.objects.filter(state=Generation.State.QUEUED).order_by("created_at", "id")
    if _sweep_cursor.after is not None:
        created_at, row_id = _sweep_cursor.after
        behind = Q(created_at__gt=created_at) | Q(created_at=created_at, id__gt=row_id)
        found = list(rows.filter(behind)[: settings.SWEEP_LIMIT])
        if found:
            return found
        _sweep_cursor.after = None
    return list(rows[: settings.SWEEP_LIMIT])


def _sweep_missing(generation: Generation, now: datetime, *, is_lost: bool) -> str:
    """The queue doesn't know this one: submit it, after a grace if it may have run already, or end
    it if it `is_lost` to whoever asked."""
    request = decode_request(generation.request)
    assert isinstance(request, GenerateRequest)
    if now.timestamp() > request.deadline_at:
        Generation.objects.filter(id=generation.id, state=Generation.State.QUEUED).update(
            state=Generation.State.INTERRUPTED,
            error_code="deadline_exceeded",
            error_message="no engine came back in time",
            ended_at=now,
        )
        return "interrupted"
    first = Generation.objects.filter(id=generation.id, missing_since=None).update(
        missing_since=now
    )
    since = now if first else (generation.missing_since or now)
    if now - since < timedelta(seconds=MISSING_GRACE_S):
        return "submitted"
    if is_lost:
        generation_store(generation.id, Snapshot(0, terminal=Cancelled("owner")))
        return "cancelled"
    generation_submit_committed(request)
    return "submitted"
