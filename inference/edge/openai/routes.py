"""Routes of the OpenAI family; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router

from inference import api
from inference.edge.openai.convert import SubmitContext, chat_requests, text_requests
from inference.edge.openai.prompt_bounds import refuse_hopeless
from inference.edge.openai.replies import reply
from inference.edge.openai.schemas import ChatCompletionIn, CompletionIn, GenerationIn
from llamaweb.accounts.caller import Caller
from llamaweb.lib.errors import InvalidError, UnavailableError

router = Router(tags=["openai"])

AUTOLOAD = {"1": True, "true": True, "0": False, "false": False}


@router.post("/chat/completions", response={200: dict[str, Any]}, summary="Chat completion")
async def chat_completions(
    request: HttpRequest, body: ChatCompletionIn
) -> dict[str, Any] | StreamingHttpResponse:
    """An answer to a chat; with `stream` as server-sent events."""
    context = await _context(request, body)
    requests = chat_requests(body, context)
    await refuse_hopeless(context.model, [request.prompt for request in requests])
    user_id = _caller(request).user_id
    return await reply(requests, stream=body.stream, ping_s=_ping_s(body), user_id=user_id)


@router.post("/completions", response={200: dict[str, Any]}, summary="Text completion")
async def completions(
    request: HttpRequest, body: CompletionIn
) -> dict[str, Any] | StreamingHttpResponse:
    """The continuation of one or several texts; with `stream` as server-sent events."""
    context = await _context(request, body)
    requests = text_requests(body, context)
    await refuse_hopeless(context.model, [request.prompt for request in requests])
    user_id = _caller(request).user_id
    return await reply(requests, stream=body.stream, ping_s=_ping_s(body), user_id=user_id)


async def _context(request: HttpRequest, body: GenerationIn) -> SubmitContext:
    caller = _caller(request)
    info = await api.model_resolve_for(caller.user_id, body.model)
    api.refuse_unloaded(info)
    if not _autoload(request) and not (await api.engine_status(info.name)).ready:
        raise UnavailableError(api.not_loaded(info.name))
    return SubmitContext(
        owner_key=caller.owner_key,
        cache_scope=caller.cache_scope,
        model=info.name,
        num_slots=info.num_slots,
        now_at=time.time(),
        timeout_s=settings.REQUEST_TIMEOUT_S,
        num_adapters=info.num_adapters,
        sampling=info.sampling,
        chat=info.chat,
    )


def _caller(request: HttpRequest) -> Caller:
    caller: Caller = request.auth  # type: ignore[attr-defined]
    return caller


def _autoload(request: HttpRequest) -> bool:
    """Whether the request waits for a model that no engine has ready."""
    wanted = AUTOLOAD.get(request.GET.get("autoload", "true"))
    if wanted is None:
        raise InvalidError("must be true, false, 1 or 0", param="autoload")
    return wanted


def _ping_s(body: GenerationIn) -> float | None:
    """Seconds of silence before a comment; -1 and 0: none."""
    interval = settings.SSE_PING_S if body.sse_ping_interval is None else body.sse_ping_interval
    return float(interval) if interval > 0 else None
