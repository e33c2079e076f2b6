"""The usage ledger, written in batches by a job from what the queue keeps of each end.

A batch may be read twice (the job was killed, between any two steps): a generation has one record
all the same, and its tokens are settled once.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from django.conf import settings
from django.db.models import F, Sum
from django.db.models.functions import TruncHour
from django.utils import timezone

from inference import bus
from inference.models import UsageRecord
from inference.protocol.accounts import Account
from inference.protocol.events import Cancelled, Event, Failed, Finished, Usage
from inference.queues.contract import UsageEntry
from llamaweb.accounts.limits.bounds import bounds_now
from llamaweb.accounts.limits.counters import DAY_HOURS, HOUR_S, Of, Subject, settle

BATCH: Final = 500
MAX_BATCHES: Final = 20  # of a model in one run; the next one goes on
PURGE_ROWS: Final = 5000  # removed at a time
PURGE_BUDGET_S: Final = 300.0  # of one run; the next one goes on
CHAT: Final = "chat"  # the family of the browser's chats, for which nothing is reserved

log = logging.getLogger(__name__)


def usage_collect() -> int:
    """Write down the ends that the queue keeps; returns how many were new.

    Raises:
        UnavailableError: Redis can't be reached.
    """
    queue, num_new = bus.sync_queue(), 0
    for model in queue.models():
        for _ in range(MAX_BATCHES):
            entries = queue.usage(model, limit=BATCH)
            if not entries:
                break
            num_new += _write(model, entries)
            queue.usage_ack(model, [entry.mark for entry in entries])
    return num_new


def _write(model: str, entries: Sequence[UsageEntry]) -> int:
    records: dict[str, UsageRecord] = {}
    for entry in entries:
        account = Account.read(entry.account)
        if account is None:
            log.warning("an end without a readable account is in no ledger")
            continue
        records[entry.generation_id] = _record(model, entry, account)
    rows = UsageRecord.objects.filter(generation_id__in=records)
    known = set(rows.values_list("generation_id", flat=True))
    new = [record for record in records.values() if record.generation_id not in known]
    if settings.USAGE_KEEP_DAYS:
        UsageRecord.objects.bulk_create(new, ignore_conflicts=True)
    _settle(records.values())  # who wrote the known ones may not have come so far
    return len(new)


def _record(model: str, entry: UsageEntry, account: Account) -> UsageRecord:
    end, usage = _end(entry.end)
    return UsageRecord(
        generation_id=entry.generation_id,
        user_id=account.user_id,
        key_id=account.key_id,
        model_name=model,
        family=account.family,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        completion_tokens=usage.completion_tokens,
        end=end,
        at=dt.datetime.fromtimestamp(entry.ended_at, dt.UTC),
    )


def _end(event: Event) -> tuple[str, Usage]:
    if isinstance(event, Finished):
        return event.reason, event.usage
    if isinstance(event, Cancelled):
        return "cancelled", event.usage
    if isinstance(event, Failed):
        return event.code, event.usage
    return "unknown", Usage()


def _settle(records: Iterable[UsageRecord]) -> None:
    """What the web process that reserved for them may not have lived to do."""
    bounds = bounds_now()
    if not bounds.has_quota:
        return
    for record in records:
        settle(
            Subject(record.user_id, record.key_id),
            bounds,
            record.generation_id,
            tokens=record.prompt_tokens + record.completion_tokens,
            always=record.family == CHAT,
        )


def usage_hours(subject: Subject, of: Of) -> Mapping[int, int]:
    """Tokens of a user, or of one key, in the last day, by hours since the epoch."""
    since = timezone.now() - dt.timedelta(hours=DAY_HOURS)
    records = UsageRecord.objects.filter(at__gte=since)
    if of == "key":
        records = records.filter(key_id=subject.key_id)
    else:
        records = records.filter(user_id=subject.user_id)
    hours = (
        records.order_by()
        .annotate(hour=TruncHour("at", tzinfo=dt.UTC))
        .values("hour")
        .annotate(tokens=Sum(F("prompt_tokens") + F("completion_tokens")))
    )
    return {int(row["hour"].timestamp()) // HOUR_S: row["tokens"] for row in hours}


def usage_purge() -> int:
    """Remove records that are older than LLAMAWEB_USAGE_KEEP_DAYS; returns how many."""
    oldest = timezone.now() - dt.timedelta(days=settings.USAGE_KEEP_DAYS)
    old = UsageRecord.objects.filter(at__lt=oldest).order_by("at")
    until_ts = time.monotonic() + PURGE_BUDGET_S
    num_gone = 0
    while ids := list(old.values_list("pk", flat=True)[:PURGE_ROWS]):
        num_gone += UsageRecord.objects.filter(pk__in=ids).delete()[0]
        if time.monotonic() > until_ts:
            log.warning("the ledger's purge ran out of time; the next one goes on")
            break
    return num_gone
