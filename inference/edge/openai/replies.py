"""Run generations and answer in this family's shapes, streamed or whole."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Sequence
from typing import Any

from django.http import StreamingHttpResponse

from inference.edge.errors import error_reply
from inference.edge.openai.options import options_from_json
from inference.edge.openai.render import ChoiceRenderer, Chunk, usage_chunk, whole_reply
from inference.edge.sse import DONE, frame, sse_response
from inference.edge.steps import Broken
from inference.edge.submission import Batch, Run
from inference.edge.waiting import Waiting
from inference.protocol.requests import GenerateRequest
from llamaweb.lib.event_stream import PING, comment

# The status waits that long for the first event; then a stream begins with 200 and whatever
# goes wrong travels in it. A whole reply just waits for its end.
FIRST_EVENT_WAIT_S = 10.0


async def reply(
    requests: Sequence[GenerateRequest], *, stream: bool, ping_s: float | None, user_id: int
) -> dict[str, Any] | StreamingHttpResponse:
    """Run `requests` and answer; `ping_s` of silence in a stream are broken by a comment, and while
    their model isn't there comments say why, naming none that isn't for `user_id`.

    Raises:
        LlamawebError: refused by the queue, or (with the first event) by the engine; whole
            replies: however it ended.
    """
    async with contextlib.AsyncExitStack() as stack:
        run = await stack.enter_async_context(Run(requests))
        choices = [
            ChoiceRenderer(r.reply, options_from_json(r.reply.options_json)) for r in requests
        ]
        waiting = Waiting(requests[0].model, user_id)
        if not stream:
            return await _whole(run, choices, waiting)
        batch = await waiting.first(run, FIRST_EVENT_WAIT_S)
        if batch is not None and isinstance(batch.steps[0], Broken):
            raise waiting.error(batch.steps[0].end)
        stack.pop_all()  # from here on the response owns the run
        # The web server sends the head with the first bytes, so a comment where none are due yet.
        is_silent = batch is None or choices[0].options.kind == "text"
    response = sse_response(_stream(run, choices, ping_s, waiting, is_silent=is_silent))
    # A client that leaves before the first byte: the generator never begins, nor ends.
    weakref.finalize(response, _close_soon, asyncio.get_running_loop(), run).atexit = False
    return response


def _close_soon(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(run.close)


async def _whole(run: Run, choices: Sequence[ChoiceRenderer], waiting: Waiting) -> Chunk:
    chunks: list[Chunk] = []
    while (batch := await waiting.next(run, None)) is not None:
        if isinstance(batch, str):
            continue
        for step in batch.steps:
            if isinstance(step, Broken):
                raise waiting.error(step.end)
            chunks += choices[batch.index].render(step)
    return whole_reply(choices, chunks)


async def _stream(
    run: Run,
    choices: Sequence[ChoiceRenderer],
    ping_s: float | None,
    waiting: Waiting,
    *,
    is_silent: bool,
) -> AsyncIterator[bytes]:
    try:
        if is_silent:
            yield PING
        while not run.is_over:
            batch = await waiting.next(run, ping_s)
            if isinstance(batch, str):
                data, is_broken = comment(batch) if ping_s is not None else b"", False
            elif batch is None:
                data, is_broken = PING, False
            else:
                data, is_broken = _frames(batch, choices, waiting)
            if data:
                yield data
            if is_broken:
                return
        usage = usage_chunk(choices)
        yield (b"" if usage is None else frame(usage)) + DONE
    finally:
        run.close()


def _frames(
    batch: Batch, choices: Sequence[ChoiceRenderer], waiting: Waiting
) -> tuple[bytes, bool]:
    """The events of a batch, numbered `seq.sub` (with several choices `index.seq.sub`)."""
    choice = choices[batch.index]
    prefix = f"{batch.index}." if len(choices) > 1 else ""
    frames: list[bytes] = []
    for step in batch.steps:
        if isinstance(step, Broken):
            frames.append(frame(error_reply(waiting.error(step.end)).body))
            return b"".join(frames), True
        for chunk in choice.render(step):
            frames.append(frame(chunk, f"{prefix}{batch.seq}.{len(frames)}"))
    return b"".join(frames), False
