"""Run generations and answer in a family's shapes, streamed or whole."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Sequence
from typing import Any

from django.http import StreamingHttpResponse

from inference.edge.steps import Broken
from inference.edge.submission import Batch, Run
from inference.edge.waiting import Waiting
from inference.edge.wire import Frame, Wire
from inference.protocol.requests import GenerateRequest
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
    user_id: int,
) -> dict[str, Any] | StreamingHttpResponse:
    """Run `requests` and answer; `ping_s` of silence in a stream are broken, and while their model
    isn't there notes say why, naming none that isn't for `user_id`.

    Raises:
        LlamawebError: refused by the queue, or (with the first event) by the engine; whole
            replies: however it ended.
    """
    async with contextlib.AsyncExitStack() as stack:
        run = await stack.enter_async_context(Run(requests))
        waiting = Waiting(requests[0].model, user_id)
        if not stream:
            return await _whole(run, wire, waiting)
        batch = await waiting.first(run, FIRST_EVENT_WAIT_S)
        if batch is not None and isinstance(batch.steps[0], Broken):
            raise waiting.error(batch.steps[0].end)
        stack.pop_all()  # from here on the response owns the run
    # The web server sends the head with the first bytes, so silence is broken where none are due.
    is_silent = batch is None or wire.is_silent
    chunks = _stream(run, wire, ping_s, waiting, is_silent=is_silent)
    response = StreamingHttpResponse(
        chunks, content_type=wire.encoding.content_type, headers=HEADERS
    )
    # A client that leaves before the first byte: the generator never begins, nor ends.
    weakref.finalize(response, _close_soon, asyncio.get_running_loop(), run).atexit = False
    return response


def _close_soon(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(run.close)


async def _whole(run: Run, wire: Wire, waiting: Waiting) -> dict[str, Any]:
    frames: list[Frame] = []
    while (batch := await waiting.next(run, None)) is not None:
        if isinstance(batch, str):
            continue
        for step in batch.steps:
            if isinstance(step, Broken):
                raise waiting.error(step.end)
            frames += wire.render(batch.index, step)
    return wire.whole([*frames, *wire.end()])


async def _stream(
    run: Run, wire: Wire, ping_s: float | None, waiting: Waiting, *, is_silent: bool
) -> AsyncIterator[bytes]:
    encoding = wire.encoding
    try:
        if is_silent:
            yield encoding.silence
        while not run.is_over:
            batch = await waiting.next(run, ping_s)
            if isinstance(batch, str):
                data, is_broken = encoding.note(batch) if ping_s is not None else b"", False
            elif batch is None:
                data, is_broken = encoding.silence, False
            else:
                data, is_broken = _encoded(batch, run, wire, waiting)
            if data:
                yield data
            if is_broken:
                return
        yield b"".join(encoding.frame(frame, None) for frame in wire.end()) + wire.tail
    finally:
        run.close()


def _encoded(batch: Batch, run: Run, wire: Wire, waiting: Waiting) -> tuple[bytes, bool]:
    """The frames of a batch, numbered `seq.sub` (with several choices `index.seq.sub`), and whether
    they are the last ones of a stream that ends incomplete."""
    prefix = f"{batch.index}." if len(run.requests) > 1 else ""
    out: list[bytes] = []
    for step in batch.steps:
        if isinstance(step, Broken):
            last = wire.error(waiting.error(step.end))
            return b"".join([*out, *(wire.encoding.frame(frame, None) for frame in last)]), True
        for frame in wire.render(batch.index, step):
            out.append(wire.encoding.frame(frame, f"{prefix}{batch.seq}.{len(out)}"))
    return b"".join(out), False
