"""Taking up a stream: from the start of its logs, without what its client has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.http import StreamingHttpResponse

from inference import api
from inference.api import Position, Read, StreamRecord
from inference.edge.errors import end_error
from inference.edge.following import Follower
from inference.edge.places import EventId
from inference.edge.rejoining import ALL_SEEN, Seen
from inference.edge.rendering import Rendering
from inference.edge.replies import stream_of, streamed
from inference.edge.resumable.families import FAMILIES
from inference.edge.resumable.sizes import num_bytes
from inference.edge.resumable.wish import HEADER
from inference.edge.waiting import Waiting
from inference.edge.wire import Wire
from inference.queues.contract import START, Status
from llamaweb.accounts.caller import Caller
from llamaweb.lib.errors import GoneError, InvalidError, NotFoundError

ABSENT: Final = "Stream not found or expired"
LOST: Final = "Stream offset lost, please restart"
BAD_OFFSET: Final = "Invalid 'from' offset"
WHOLE_ENTRY: Final = 10**6  # more frames than an entry has


@dataclass(frozen=True, slots=True)
class Found:
    """A stream with what the queue knows of its generations."""

    record: StreamRecord
    statuses: tuple[Status, ...]

    @property
    def is_done(self) -> bool:
        """Whether nothing comes any more."""
        return all(status.state == "ended" for status in self.statuses)

    @property
    def completed_at(self) -> int:
        """Whole seconds, 0 while it runs."""
        return int(max(s.ended_at or 0.0 for s in self.statuses)) if self.is_done else 0


async def stream_found(record: StreamRecord) -> Found | None:
    """None if its logs are gone, or nobody here can render it."""
    statuses = []
    for generation_id in record.ids:
        status = await api.generation_status(record.model, generation_id)
        if status is None:
            return None
        statuses.append(status)
    return Found(record, tuple(statuses)) if record.family in FAMILIES else None


async def stream_response(
    found: Found, *, skip: int, event_id: EventId | None, ping_s: float | None, caller: Caller
) -> StreamingHttpResponse:
    """The stream behind the event `event_id`, or but its first `skip` bytes, to its end.

    Raises:
        GoneError: its first bytes can't be made again: a log was cut.
        InvalidError: the client has more than there is.
        NotFoundError: `event_id` is of another stream.
        UnavailableError: as of `num_bytes`.
    """
    record = found.record
    seen = None if event_id is None else _seen(record, event_id)
    if skip:
        await _check_offset(found, skip)
    wire = wire_of(record)
    follower = Follower(
        [(record.model, generation_id) for generation_id in record.ids],
        groups=record.groups,
        seen=seen,
        source=_running if not found.is_done else None,
        needs_whole_logs=skip > 0,
    )
    for index in range(len(record.ids)):
        follower.start(index)
    chunks = stream_of(
        follower,
        wire,
        Rendering(wire, record.ids, record.groups),
        ping_s,
        Waiting(record.model, caller),
        end_error,
        is_silent=not found.is_done,
        skip=skip,
    )
    name = {HEADER: record.stream_id} if record.stream_id.isascii() else {}
    return streamed(chunks, wire.encoding, follower, name)


async def total_bytes(found: Found) -> int:
    """Bytes of all events so far.

    Raises:
        UnavailableError: as of `num_bytes`.
    """
    total, _ = await num_bytes(found.record, wire_of(found.record), is_done=found.is_done)
    return total


def wire_of(record: StreamRecord) -> Wire:
    """What renders it, from its first step on."""
    return FAMILIES[record.family].make(record.requests)


async def _check_offset(found: Found, skip: int) -> None:
    record = found.record
    for generation_id in record.ids:
        if (await api.generation_read(record.model, generation_id)).reset is not None:
            raise GoneError(LOST)
    if found.is_done and skip > await total_bytes(found):
        raise InvalidError(BAD_OFFSET, param="from")


def _seen(record: StreamRecord, event_id: EventId) -> list[Seen | None]:
    """What the client has of each answer: all to earlier prompts, nothing of later ones."""
    if event_id.generation_id not in record.ids:
        raise NotFoundError(ABSENT)
    own = record.ids.index(event_id.generation_id)
    seen: list[Seen | None] = []
    for size in record.groups:
        first = len(seen)
        if own < first:
            seen += [None] * size
        elif own >= first + size:
            seen += [ALL_SEEN] * size
        else:
            seen += _seen_mates(event_id, own - first, size)
    return seen


def _seen_mates(event_id: EventId, own: int, size: int) -> Sequence[Seen]:
    if len(event_id.places) != size:
        raise InvalidError("is no id of an event of this stream", param="Last-Event-ID")
    mates = [
        Seen(place, seq=event_id.seq - (index > own), sub=WHOLE_ENTRY)
        for index, place in enumerate(event_id.places)
    ]
    mates[own] = replace(mates[own], skip=event_id.skip, sub=event_id.sub)
    return mates


def _running(model: str, generation_id: str) -> AsyncIterator[Read | Position]:
    return api.generation_events(model, generation_id, START, expected=True)
