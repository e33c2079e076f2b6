"""Remembering a stream before it begins, and forgetting it; an owner has one of a name at most."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType

from django.conf import settings

from inference import api
from inference.api import StreamRecord
from inference.edge.resumable.families import FAMILIES, family_of
from inference.edge.resumable.wish import HEADER
from inference.edge.wire import Wire
from inference.protocol.requests import GenerateRequest, TextPrompt
from llamaweb.lib.errors import BusyError, LlamawebError

MARGIN_S = 60.0  # an answer's end is written, and seen, a little past its deadline
MAX_TRIES = 3


@dataclass(frozen=True, slots=True)
class Kept:
    """A stream that its owner may take up again."""

    owner_key: str
    record: StreamRecord

    @property
    def groups(self) -> tuple[int, ...]:
        """See `StreamRecord`."""
        return self.record.groups

    @property
    def headers(self) -> dict[str, str]:
        """What tells the client its name."""
        return {HEADER: self.record.stream_id} if self.record.stream_id.isascii() else {}

    async def left(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Forget it if it was refused; a client that went away may come back."""
        if isinstance(error, LlamawebError):
            await api.stream_forget(self.owner_key, self.record)


async def stream_keep(requests: Sequence[GenerateRequest], wire: Wire) -> Kept | None:
    """Remember the stream of `requests`, which share its name; the one that had it is cancelled.
    None: this family has no streams that can be taken up again.

    Raises:
        BusyError: too many answers of the owner are kept, none of which has ended.
        InvalidError: it is too large to be kept.
        UnavailableError: Redis can't be reached.
    """
    family = family_of(wire)
    if family is None:
        return None
    first = requests[0]
    record = StreamRecord(
        stream_id=first.reply.stream_id,
        family=family,
        model=first.model,
        requests=tuple(_shown(each, whole=FAMILIES[family].shows_request) for each in requests),
        groups=_groups(requests),
        started_at=first.submitted_at,
        expires_at=first.deadline_at + settings.STREAM_KEEP_S + MARGIN_S,
    )
    replaced = await _remember(first.owner_key, record)
    if replaced is not None:
        await stream_cancel(replaced)
    return Kept(first.owner_key, record)


async def stream_cancel(record: StreamRecord) -> None:
    """End what hasn't ended of a stream.

    Raises:
        UnavailableError: Redis can't be reached.
    """
    for generation_id in record.ids:
        await api.generation_cancel(record.model, generation_id, "user")


async def stream_forget_named(owner_key: str, stream_id: str) -> None:
    """Cancel and forget an owner's stream of that name, if there is one.

    Raises:
        UnavailableError: Redis can't be reached.
    """
    for record in await api.stream_list(owner_key):
        if record.stream_id == stream_id and await api.stream_forget(owner_key, record):
            await stream_cancel(record)


async def has_ended(record: StreamRecord) -> bool:
    """Whether nothing is written of it any more."""
    for generation_id in record.ids:
        status = await api.generation_status(record.model, generation_id)
        if status is not None and status.state != "ended":
            return False
    return True


async def _remember(owner_key: str, record: StreamRecord) -> StreamRecord | None:
    """Put it in the book; where that is full, ended streams leave, the oldest first."""
    for number in itertools.count(1):
        try:
            return await api.stream_remember(owner_key, record)
        except BusyError:
            if number == MAX_TRIES or not await _make_room(owner_key, len(record.requests)):
                raise
    raise AssertionError("unreachable")


async def _make_room(owner_key: str, wanted: int) -> bool:
    """Forget ended streams until `wanted` answers are fewer; False: not one has ended."""
    freed = 0
    for record in await api.stream_list(owner_key):
        if freed < wanted and await has_ended(record):
            await api.stream_forget(owner_key, record)
            freed += len(record.requests)
    return freed > 0


def _shown(request: GenerateRequest, *, whole: bool) -> GenerateRequest:
    """What replies show of `request`: its prompt only as text, or nothing but `reply`."""
    nothing = TextPrompt("")
    if whole:
        prompt = request.prompt if isinstance(request.prompt, TextPrompt) else nothing
        return replace(request, prompt=prompt)
    return GenerateRequest(
        generation_id=request.generation_id,
        model=request.model,
        owner_key=request.owner_key,
        cache_scope=request.cache_scope,
        prompt=nothing,
        seed=request.seed,
        submitted_at=request.submitted_at,
        deadline_at=request.deadline_at,
        reply=request.reply,
    )


def _groups(requests: Sequence[GenerateRequest]) -> tuple[int, ...]:
    """How many of them answer the same prompt, in a row."""
    runs = itertools.groupby(requests, key=lambda request: id(request.prompt))
    return tuple(len(list(run)) for _, run in runs)
