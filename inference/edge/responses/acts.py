"""What is done with responses: made, cancelled, deleted."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any, Final

from django.db import DatabaseError
from django.http import StreamingHttpResponse

from inference import api
from inference.edge.asking import ping_s
from inference.edge.replies import reply
from inference.edge.responses.convert import Wanted
from inference.edge.responses.items import items_to_json
from inference.edge.responses.render import ResponsesWire
from inference.edge.responses.stored import response_body
from inference.edge.responses.streaming import follow
from inference.protocol.requests import GenerateRequest
from inference.registry.responses import (
    ResponseRecord,
    response_create,
    response_delete,
    response_get,
)
from llamaweb.accounts.caller import Caller
from llamaweb.accounts.database import in_database
from llamaweb.lib.errors import LlamawebError, NotFoundError

CANCEL_WAIT_S: Final = 10.0  # engines hear of it with their next heartbeat
FORGET_TIMEOUT_S: Final = 10.0

log = logging.getLogger(__name__)

# They outlive the views that were cancelled; the loop keeps only weak references to tasks.
_forgetting: set[asyncio.Task[None]] = set()


async def response_make(
    wanted: Wanted,
    *,
    caller: Caller,
    stream: bool,
    ping_interval_s: int | None,
    previous: ResponseRecord | None,
) -> dict[str, Any] | StreamingHttpResponse:
    """Make a response and answer. One that is stored goes on without its reader once its client
    can know its id: as a stream, or in the background.

    Raises:
        LlamawebError: refused, or (whole ones) however it ended; then nothing of it is kept.
    """
    request, wire = wanted.request, ResponsesWire(wanted.request.reply)
    if request.keep:
        request = replace(request, reply=replace(request.reply, options_json="{}"))
        await in_database(_store)(wanted, request, user_id=caller.user_id, previous=previous)
    try:
        if wanted.options.is_background and not stream:
            await api.generation_submit(request)
            return wire.body("queued")
        return await reply(
            [request], wire, stream=stream, ping_s=ping_s(ping_interval_s), caller=caller
        )
    except BaseException:  # also a client that leaves
        if request.keep:
            _forget_later(caller, wanted.response_id)
        raise


async def response_cancel(caller: Caller, response_id: str) -> dict[str, Any]:
    """End a response that is being made; one that has ended stays as it is.

    Raises:
        NotFoundError: absent or not theirs.
    """
    record = await _get(caller, response_id)
    if not record.is_ended:
        await api.generation_cancel(record.model_name, record.generation_id, "user")
        await _wait_for_end(caller, record)
        record = await _get(caller, response_id)
    return await response_body(record)


async def response_forget(caller: Caller, response_id: str) -> None:
    """Delete a response, and end it if it is being made.

    Raises:
        NotFoundError: absent or not theirs.
    """
    record = await in_database(response_delete)(
        user_id=caller.user_id, response_id=response_id, only=caller.model_names
    )
    await api.generation_cancel(record.model_name, record.generation_id, "deleted")
    await in_database(api.cache_forget_now)(conversations=(record.root_id,))


async def _get(caller: Caller, response_id: str) -> ResponseRecord:
    return await in_database(response_get)(
        user_id=caller.user_id, response_id=response_id, only=caller.model_names
    )


def _store(
    wanted: Wanted, request: GenerateRequest, *, user_id: int, previous: ResponseRecord | None
) -> None:
    response_create(
        user_id=user_id,
        response_id=wanted.response_id,
        request=request,
        items=items_to_json(wanted.items),
        options=wanted.request.reply.options_json,
        previous=previous,
        is_background=wanted.options.is_background,
    )


async def _wait_for_end(caller: Caller, record: ResponseRecord) -> None:
    """Until the engine has said the last word, or for so long."""
    loop = asyncio.get_running_loop()
    ends_ts = loop.time() + CANCEL_WAIT_S
    follower = follow(caller, record)
    try:
        while not follower.is_over and (left_s := ends_ts - loop.time()) > 0:
            await follower.next(left_s)
    finally:
        follower.close()


def _forget_later(caller: Caller, response_id: str) -> None:
    """Nobody can ask for it: delete it, from a task of its own."""
    task = asyncio.create_task(_forget(caller, response_id), name="response-forget")
    _forgetting.add(task)
    task.add_done_callback(_forgetting.discard)


async def _forget(caller: Caller, response_id: str) -> None:
    try:
        async with asyncio.timeout(FORGET_TIMEOUT_S):
            await response_forget(caller, response_id)
    except NotFoundError:
        return
    except (LlamawebError, DatabaseError, TimeoutError):
        log.warning("a response that nobody can ask for could not be deleted at once")
