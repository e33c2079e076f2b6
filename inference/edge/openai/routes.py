"""Routes of the OpenAI family; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router

from inference import api
from inference.api import ModelInfo
from inference.edge.openai.convert import SubmitContext, chat_requests, text_requests
from inference.edge.openai.prompt_bounds import refuse_hopeless
from inference.edge.openai.replies import reply
from inference.edge.openai.schemas import ChatCompletionIn, CompletionIn, GenerationIn
from llamaweb.accounts.auth import ApiKeyAuth
from llamaweb.accounts.caller import Caller
from llamaweb.accounts.models import Scope
from llamaweb.lib.errors import LlamawebError

router = Router(tags=["openai"])

OWNED_BY = "llamaweb"
MODELS_AUTH = ApiKeyAuth(Scope.MODELS_READ, Scope.INFERENCE)


@router.post("/chat/completions", response={200: dict[str, Any]}, summary="Chat completion")
async def chat_completions(
    request: HttpRequest, body: ChatCompletionIn
) -> dict[str, Any] | StreamingHttpResponse:
    """An answer to a chat; with `stream` as server-sent events."""
    context = await _context(request, body)
    requests = chat_requests(body, context)
    await refuse_hopeless(context.model, [request.prompt for request in requests])
    return await reply(requests, stream=body.stream, ping_s=_ping_s(body))


@router.post("/completions", response={200: dict[str, Any]}, summary="Text completion")
async def completions(
    request: HttpRequest, body: CompletionIn
) -> dict[str, Any] | StreamingHttpResponse:
    """The continuation of one or several texts; with `stream` as server-sent events."""
    context = await _context(request, body)
    requests = text_requests(body, context)
    await refuse_hopeless(context.model, [request.prompt for request in requests])
    return await reply(requests, stream=body.stream, ping_s=_ping_s(body))


@router.get("/models", auth=MODELS_AUTH, response={200: dict[str, Any]}, summary="Models")
async def models(request: HttpRequest) -> dict[str, Any]:
    """All models that may be named in a request, the default one first."""
    caller: Caller = request.auth  # type: ignore[attr-defined]
    infos = await api.model_list_for(caller.user_id)
    data = [await _model_body(info, is_default=not index) for index, info in enumerate(infos)]
    return {"object": "list", "data": data}


@router.get(
    "/models/{path:name}",
    auth=MODELS_AUTH,
    response={200: dict[str, Any]},
    summary="One model",
)
async def model(request: HttpRequest, name: str) -> dict[str, Any]:
    """One model."""
    caller: Caller = request.auth  # type: ignore[attr-defined]
    info = await api.model_resolve_for(caller.user_id, name)
    default = await api.model_resolve_for(caller.user_id, None)
    return await _model_body(info, is_default=info.name == default.name)


async def _model_body(info: ModelInfo, *, is_default: bool) -> dict[str, Any]:
    """`meta` is null while no engine serves the model: only an engine knows the context, and that
    of a model elsewhere perhaps nobody does."""
    try:
        summary = await api.engine_status(info.name)
        meta = {"n_ctx": summary.max_context or None} if summary.ready else None
    except LlamawebError:  # the list is of use without the queue, too
        meta = None
    return {
        "id": info.name,
        "aliases": [*info.aliases, *(["default"] if is_default else [])],
        "object": "model",
        "created": info.created,
        "owned_by": OWNED_BY,
        "meta": meta,
    }


async def _context(request: HttpRequest, body: GenerationIn) -> SubmitContext:
    caller: Caller = request.auth  # type: ignore[attr-defined]
    info = await api.model_resolve_for(caller.user_id, body.model)
    api.refuse_unloaded(info)
    return SubmitContext(
        owner_key=caller.owner_key,
        cache_scope=caller.cache_scope,
        model=info.name,
        num_slots=info.num_slots,
        now_at=time.time(),
        timeout_s=settings.REQUEST_TIMEOUT_S,
        num_adapters=info.num_adapters,
        sampling=info.sampling,
    )


def _ping_s(body: GenerationIn) -> float | None:
    """Seconds of silence before a comment; -1 and 0: none."""
    interval = settings.SSE_PING_S if body.sse_ping_interval is None else body.sse_ping_interval
    return float(interval) if interval > 0 else None
