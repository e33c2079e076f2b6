"""Stored responses: made with their generations, gone on from, deleted, expired.

A user keeps so many of so many characters; the ones that weren't used for the longest time make
room. Those that are still being written are never removed for others.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import Length
from django.utils import timezone

from inference.models import Generation
from inference.protocol.codec import encode_request
from inference.protocol.events import Cancelled, Event, Failed, Finished, FinishReason, Usage
from inference.protocol.requests import GenerateRequest
from inference.registry.generations import generation_finalise, generation_record
from inference.registry.response_access import access_response, access_responses
from inference.registry.response_log import events_of, is_cut_known
from inference.response_models import StoredResponse
from llamaweb.lib.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

MAX_STORED_CHARS: Final = 64 * 1024 * 1024  # of one user, all together
MAX_CHAIN: Final = 1024  # responses that one goes on from, one behind the other
PURGE_BATCH: Final = 500
READ_BATCH: Final = 16  # of a chain, at a time
PREVIOUS: Final = "previous_response_id"  # the field whose mistakes are told here
DELETED: Final = "a response that this one goes on from was deleted"


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """A stored response as a value. `created_at`: seconds since the epoch. `is_ended`: its events
    will not change any more. `is_exact`: they are cut as they were told."""

    id: str
    previous_id: str
    root_id: str
    created_at: int
    model_name: str
    generation_id: str
    is_background: bool
    items: str
    options: str
    is_ended: bool
    is_exact: bool = False
    events: tuple[Event, ...] = field(default=(), repr=False)


def response_create(
    *,
    user_id: int,
    response_id: str,
    request: GenerateRequest,
    items: str,
    options: str,
    previous: ResponseRecord | None = None,
    is_background: bool = False,
) -> None:
    """Store a response and its generation, which the caller submits; the sweep does, if the caller
    can't any more.

    Raises:
        NotFoundError: there is no such user any more.
        BusyError: they have too many generations that haven't ended.
    """
    owner: User | None = get_user_model().objects.filter(pk=user_id, is_active=True).first()
    if owner is None:
        raise NotFoundError("there is no such user")
    size = len(items) + len(options) + len(encode_request(request))
    with transaction.atomic():
        StoredResponse.objects.create(
            id=response_id,
            owner=owner,
            generation=generation_record(owner=owner, request=request),
            previous_id=previous.id if previous else "",
            root_id=previous.root_id if previous else response_id,
            is_background=is_background,
            items=items,
            options=options,
            size=size,
            created_at=datetime.fromtimestamp(request.reply.created_at, UTC),
            used_at=timezone.now(),
        )
        _make_room(owner.pk)


def response_get(
    *, user_id: int, response_id: str, only: Collection[str] = (), with_log: bool = True
) -> ResponseRecord:
    """A stored response; one that ended is stored first. `only`: see `access_responses`; without
    the log its events say the same in fewer pieces, and no log probabilities.

    Raises:
        NotFoundError: absent or not theirs.
    """
    row = access_response(user_id, response_id, only, with_log=with_log)
    if row.generation.state == Generation.State.QUEUED and generation_finalise(row.generation_id):
        row = access_response(user_id, response_id, only, with_log=with_log)
    return _record(row, with_log=with_log)


def response_chain(
    *, user_id: int, response_id: str, max_chars: int, only: Collection[str] = ()
) -> list[ResponseRecord]:
    """A response with all that it goes on from, the first one first, without their logs. All of
    them were used now. `max_chars`: of what was asked in them; their answers were bounded by the
    prompts of those behind them. `only`: see `access_responses`.

    Raises:
        InvalidError: naming `previous_response_id`: absent, not theirs, not ended, one that it
            goes on from was deleted, or too much altogether.
    """
    try:
        last = response_get(user_id=user_id, response_id=response_id, only=only, with_log=False)
    except NotFoundError:
        raise InvalidError("there is no such response", param=PREVIOUS) from None
    if not last.is_ended:
        raise InvalidError("this response hasn't ended yet", param=PREVIOUS)
    rows = access_responses(user_id, only).filter(root_id=last.root_id)
    ids = _chain_ids(rows, last.id)
    num_chars = responses_chars(user_id=user_id, response_ids=ids, only=only)
    if num_chars > max_chars:
        raise InvalidError(
            f"goes on from {num_chars} characters of input, at most {max_chars} are allowed in "
            "one request",
            param=PREVIOUS,
            bound="prompt",
        )
    found = _records(rows, ids[::-1])
    if len(found) != len(ids):
        raise InvalidError(DELETED, param=PREVIOUS)
    rows.filter(id__in=ids).update(used_at=timezone.now())
    return found


def response_before(
    *, user_id: int, record: ResponseRecord, newest_first: bool, only: Collection[str] = ()
) -> Iterator[ResponseRecord]:
    """All that `record` goes on from, as in `response_chain`; nothing if one of them was deleted.
    They are read as far as the caller comes, with their logs where those have log probabilities;
    reading is no use of them."""
    rows = access_responses(user_id, only).filter(root_id=record.root_id)
    try:
        ids = _chain_ids(rows, record.previous_id) if record.previous_id else []
    except InvalidError:
        return
    ids = ids if newest_first else ids[::-1]
    for start in range(0, len(ids), READ_BATCH):
        batch = ids[start : start + READ_BATCH]
        has_probs = rows.filter(id__in=batch, log__has_key="logprobs")
        with_probs = set(has_probs.values_list("id", flat=True))
        for each in _records(rows, batch):
            yield _with_log(rows, each) if each.id in with_probs else each


def responses_chars(
    *, user_id: int, response_ids: Collection[str], only: Collection[str] = ()
) -> int:
    """Characters of what was asked in those of these responses that are theirs."""
    rows = access_responses(user_id, only).filter(id__in=response_ids)
    return rows.aggregate(chars=Sum(Length("items")))["chars"] or 0


def response_delete(
    *, user_id: int, response_id: str, only: Collection[str] = ()
) -> ResponseRecord:
    """Delete a response with its generation; the caller ends what still runs. `only`: see
    `access_responses`.

    Raises:
        NotFoundError: absent or not theirs.
    """
    row = access_response(user_id, response_id, only)
    Generation.objects.filter(id=row.generation_id).delete()
    return _record(row)


def response_purge(now: datetime | None = None) -> int:
    """Remove what nobody used for the days of the settings; returns how many went."""
    until = (now or timezone.now()) - timedelta(days=settings.RESPONSE_DAYS)
    rows = StoredResponse.objects.filter(used_at__lt=until)
    ended = rows.exclude(generation__state=Generation.State.QUEUED).order_by("used_at")
    num_gone = 0
    while ids := list(ended.values_list("generation_id", flat=True)[:PURGE_BATCH]):
        Generation.objects.filter(id__in=ids).delete()
        num_gone += len(ids)
    return num_gone


def _make_room(owner_id: int) -> None:
    """Remove the least recently used beyond the bounds."""
    rows = StoredResponse.objects.filter(owner_id=owner_id)
    total = rows.aggregate(count=Count("id"), size=Sum("size"))
    if total["count"] <= settings.MAX_RESPONSES and total["size"] <= MAX_STORED_CHARS:
        return
    num_chars, drop = 0, []
    columns = rows.order_by("-used_at").values_list("generation_id", "size", "generation__state")
    found = [(gid, size, state != Generation.State.QUEUED) for gid, size, state in columns]
    found.sort(key=lambda row: row[2])  # those that are being made stay, so they count first
    for number, (generation_id, size, is_ended) in enumerate(found, 1):
        num_chars += size
        if is_ended and (number > settings.MAX_RESPONSES or num_chars > MAX_STORED_CHARS):
            drop.append(generation_id)
    Generation.objects.filter(id__in=drop).delete()


def _chain_ids(rows: QuerySet[StoredResponse], last_id: str) -> list[str]:
    """A response and those of `rows` that it goes on from, the first one last."""
    before = dict(rows.values_list("id", "previous_id"))
    ids = [last_id]
    while (previous := before.get(ids[-1], "")) and len(ids) < MAX_CHAIN:
        ids.append(previous)
    if len(ids) == MAX_CHAIN:
        raise InvalidError(
            f"{MAX_CHAIN} responses go on from each other; that is the limit", param=PREVIOUS
        )
    if ids[-1] not in before:
        raise InvalidError(DELETED, param=PREVIOUS)
    return ids


def _records(rows: QuerySet[StoredResponse], ids: Sequence[str]) -> list[ResponseRecord]:
    """Those that are still there, in this order, without their logs."""
    kept = rows.select_related("generation").defer("generation__request", "log")
    found = kept.in_bulk(ids)
    return [_record(found[each], with_log=False) for each in ids if each in found]


def _with_log(rows: QuerySet[StoredResponse], record: ResponseRecord) -> ResponseRecord:
    """The same with its log, which is large: one at a time."""
    kept = rows.select_related("generation").defer("generation__request")
    row = kept.filter(id=record.id).first()
    return record if row is None else _record(row)


def _record(row: StoredResponse, *, with_log: bool = True) -> ResponseRecord:
    """The one mapper from row to contract."""
    generation = row.generation
    log = row.log if with_log else None
    is_ended = generation.state != Generation.State.QUEUED
    events: list[Event] = []
    if is_ended:
        parts = [(kind, text) for kind, text in generation.parts]
        events = events_of(parts, log, _end(generation))
    return ResponseRecord(
        id=row.id,
        previous_id=row.previous_id,
        root_id=row.root_id,
        created_at=int(row.created_at.timestamp()),
        model_name=generation.model_name,
        generation_id=generation.id,
        is_background=row.is_background,
        items=row.items,
        options=row.options,
        is_ended=is_ended,
        is_exact=is_cut_known(log) or not generation.parts,
        events=tuple(events),
    )


def _end(generation: Generation) -> Finished | Failed | Cancelled:
    """How it ended, as far as its own row knows."""
    usage = Usage(generation.prompt_tokens, generation.completion_tokens, generation.cached_tokens)
    if generation.state == Generation.State.CANCELLED:
        return Cancelled("user", usage)
    if generation.state == Generation.State.FINISHED:
        reasons: dict[str, FinishReason] = {"length": "length", "tool_calls": "tool_calls"}
        return Finished(reasons.get(generation.finish_reason, "stop"), usage)
    is_late = generation.error_code == "deadline_exceeded"
    code: Any = "deadline_exceeded" if is_late else "engine_failed"
    return Failed(code, generation.error_message or "the answer failed", usage=usage)


def items_read(record: ResponseRecord) -> list[dict[str, Any]]:
    """What was asked in this response alone."""
    items: list[dict[str, Any]] = json.loads(record.items)
    return items
