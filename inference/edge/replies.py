"""Run generations and answer in a family's shapes, streamed or whole."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.http import StreamingHttpResponse

from inference.edge.errors import end_error
from inference.edge.following import Follower
from inference.edge.rendering import Bytes, ErrorOf, Rendering
from inference.edge.resumable.keeping import Kept, stream_forget_named, stream_keep
from inference.edge.steps import Broken
from inference.edge.submission import Run
from inference.edge.tool_places import placed
from inference.edge.waiting import Waiting
from inference.edge.wire import Encoding, Frame, Wire
from inference.protocol.requests import GenerateRequest
from llamaweb.accounts.caller import Caller
from llamaweb.lib.event_stream import HEADERS

# The status waits that long for the first event; then a stream begins with 200 and whatever
# goes wrong travels in it. A whole reply just waits for its end.
FIRST_EVENT_WAIT_S = 10.0


async def reply(
    requests: Sequence[GenerateRequest],
    wire: Wire,
    *,
    stream: bool,
    ping_s: float | None,
    caller: Caller,
) -> dict[str, Any] | StreamingHttpResponse:
    """Run `requests` and answer; `ping_s` of silence in a stream are broken, and while their model
    isn't there notes say why, naming none that isn't for `caller`. A stream with an id (see
    `ReplyInfo`) goes on without its client, who may take it up again.

    Raises:
        LlamawebError: refused by the queue, or (with the first event) by the engine; whole
            replies: however it ended.
    """
    kept = await _kept(requests, wire, stream=stream)
    if kept is not None:
        requests = [replace(request, keep=True) for request in requests]
    async with contextlib.AsyncExitStack() as stack:
        if kept is not None:
            stack.push_async_exit(kept.left)
        run = await stack.enter_async_context(Run(requests, kept.groups if kept else None))
        waiting = Waiting(requests[0].model, caller)
        if not stream:
            return await _whole(run, wire, waiting)
        batch = await waiting.first(run, FIRST_EVENT_WAIT_S)
        if batch is not None and isinstance(batch.steps[0], Broken):
            raise placed(waiting.error(batch.steps[0].end), wire.places)
        stack.pop_all()  # from here on the response owns the run
    # The web server sends the head with the first bytes, so silence is broken where none are due.
    is_silent = batch is None or wire.is_silent
    ids = [request.generation_id for request in requests]
    told = Rendering(wire, ids, kept.groups if kept else None)
    # What is rendered again has to be the same: it can't tell what this reader waited for.
    error_of = waiting.error if kept is None else end_error
    chunks = stream_of(run, wire, told, ping_s, waiting, error_of, is_silent=is_silent)
    return streamed(chunks, wire.encoding, run, kept.headers if kept else None)


async def _kept(requests: Sequence[GenerateRequest], wire: Wire, *, stream: bool) -> Kept | None:
    """The record of a stream that is to outlive its connection. Whoever names one ends the older
    one of that name, whatever this request is."""
    first = requests[0]
    if not first.reply.stream_id or first.keep:  # one that is kept already has a way of its own
        return None
    if stream:
        return await stream_keep(requests, wire)
    await stream_forget_named(first.owner_key, first.reply.stream_id)
    return None


def streamed(
    chunks: AsyncIterator[bytes],
    encoding: Encoding,
    follower: Follower,
    headers: Mapping[str, str] | None = None,
) -> StreamingHttpResponse:
    """A 200 that sends `chunks` as they come from `follower`, which is closed when nobody holds the
    response any more."""
    response = StreamingHttpResponse(
        chunks, content_type=encoding.content_type, headers={**HEADERS, **(headers or {})}
    )
    # A client that leaves before the first byte: the generator never begins, nor ends.
    loop = asyncio.get_running_loop()
    weakref.finalize(response, _close_soon, loop, follower).atexit = False
    return response


def _close_soon(loop: asyncio.AbstractEventLoop, follower: Follower) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(follower.close)


async def _whole(run: Run, wire: Wire, waiting: Waiting) -> dict[str, Any]:
    frames: list[Frame] = []
    while (batch := await waiting.next(run, None)) is not None:
        if isinstance(batch, str):
            continue
        for step in batch.steps:
            if isinstance(step, Broken):
                raise placed(waiting.error(step.end), wire.places)
            frames += wire.render(batch.index, step)
    return wire.whole([*frames, *wire.end()])


async def stream_of(
    follower: Follower,
    wire: Wire,
    rendering: Rendering,
    ping_s: float | None,
    waiting: Waiting,
    error_of: ErrorOf,
    *,
    is_silent: bool,
    skip: int = 0,
) -> AsyncIterator[bytes]:
    """The bytes of a stream, but the first `skip` of its events; `follower` is closed behind it.
    What breaks silence is no event."""
    encoding, counted = wire.encoding, Bytes(skip)
    try:
        if is_silent:
            yield encoding.silence
        while not follower.is_over:
            batch = await waiting.next(follower, ping_s)
            if isinstance(batch, str):
                data, is_broken = encoding.note(batch) if ping_s is not None else b"", False
            elif batch is None:
                data, is_broken = encoding.silence, False
            else:
                data, is_broken = rendering.batch(batch, error_of)
                data = counted.take(data)
            if data:
                yield data
            if is_broken:
                return
        if data := counted.take(rendering.end(follower.skip)):
            yield data
    finally:
        follower.close()
