"""Streams that outlive their connection; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Query, Router

from inference import api
from inference.api import StreamRecord
from inference.edge.asking import caller_of, ping_s
from inference.edge.places import EventId
from inference.edge.resumable.keeping import stream_forget_named
from inference.edge.resumable.rejoin import (
    ABSENT,
    BAD_OFFSET,
    stream_found,
    stream_response,
    total_bytes,
)
from inference.edge.resumable.schemas import (
    NameQuery,
    OffsetQuery,
    PlaceQuery,
    StreamOut,
    StreamsLookupIn,
)
from inference.edge.resumable.wish import MODEL_MARK, checked_id
from llamaweb.lib.errors import InvalidError, NotFoundError

router = Router(tags=["streams"])

MAX_OFFSET_DIGITS: Final = 15


@router.get("/stream", response={200: None}, summary="Take up a stream")
async def stream(request: HttpRequest, query: Query[PlaceQuery]) -> StreamingHttpResponse:
    """A stream from byte `from` on, or behind the event `Last-Event-ID`, and then live to its end.
    Such an id names its stream, so `conv_id` may be left out."""
    return await _stream(request, checked_id(query.conv_id, "conv_id"), query.offset)


@router.get("/stream/{path:stream_id}", response={200: None}, summary="Take up a named stream")
async def stream_named(
    request: HttpRequest, stream_id: str, query: Query[OffsetQuery]
) -> StreamingHttpResponse:
    """As `/v1/stream`, with the stream's name in the path."""
    return await _stream(request, checked_id(stream_id, "stream_id"), query.offset)


@router.delete("/stream", response={204: None}, summary="End a stream")
async def stream_delete(request: HttpRequest, query: Query[NameQuery]) -> HttpResponse:
    """Cancels what hasn't ended, and forgets it. There needn't be such a stream."""
    return await _deleted(request, query.conv_id.strip())


@router.delete("/stream/{path:stream_id}", response={204: None}, summary="End a named stream")
async def stream_delete_named(request: HttpRequest, stream_id: str) -> HttpResponse:
    """As `/v1/stream`, with the stream's name in the path."""
    return await _deleted(request, stream_id.strip())


@router.post("/streams/lookup", response={200: list[StreamOut]}, summary="Find streams")
async def streams_lookup(request: HttpRequest, body: StreamsLookupIn) -> list[StreamOut]:
    """Those of the names asked for, with and without a model behind them (`name::model`)."""
    names = {name.strip() for name in body.conversation_ids}
    found = []
    for record in await _records(request):
        is_asked = record.stream_id in names or any(
            record.stream_id.startswith(f"{name}{MODEL_MARK}") for name in names if name
        )
        if is_asked and (out := await _looked_up(record)) is not None:
            found.append(out)
    return found


async def _deleted(request: HttpRequest, name: str) -> HttpResponse:
    if any(record.stream_id == name for record in await _records(request)):
        await stream_forget_named(caller_of(request).owner_key, name)
    return HttpResponse(status=204)


async def _looked_up(record: StreamRecord) -> StreamOut | None:
    found = await stream_found(record)
    if found is None:
        return None
    return StreamOut(
        conversation_id=record.stream_id,
        is_done=found.is_done,
        total_bytes=await total_bytes(found),
        started_at=int(record.started_at),
        completed_at=found.completed_at,
    )


async def _stream(request: HttpRequest, name: str, offset: str) -> StreamingHttpResponse:
    last = request.headers.get("Last-Event-ID", "").strip()
    event_id = EventId.parse(last) if last else None
    if not name and event_id is None:
        raise InvalidError("names no stream", param="conv_id")
    skip = 0 if event_id is not None else _offset(offset)
    record = next((r for r in await _records(request) if _is_meant(r, name, event_id)), None)
    found = None if record is None else await stream_found(record)
    if found is None:
        raise NotFoundError(ABSENT)
    return await stream_response(
        found,
        skip=skip,
        event_id=event_id,
        ping_s=ping_s(),
        caller=caller_of(request),
    )


async def _records(request: HttpRequest) -> list[StreamRecord]:
    """The caller's own streams, of the models that their key is for: what else there is, is told
    to nobody."""
    caller = caller_of(request)
    records = await api.stream_list(caller.owner_key)
    return [r for r in records if not caller.model_names or r.model in caller.model_names]


def _is_meant(record: StreamRecord, name: str, event_id: EventId | None) -> bool:
    if name:
        return record.stream_id == name
    return event_id is not None and event_id.generation_id in record.ids


def _offset(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_OFFSET_DIGITS):
        raise InvalidError(BAD_OFFSET, param="from")
    return int(text)
