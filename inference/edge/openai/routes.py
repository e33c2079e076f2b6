"""Routes of the OpenAI family; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router

from inference.edge.asking import SubmitContext, caller_of, ping_s, submit_context
from inference.edge.openai.control import ControlIn, control
from inference.edge.openai.convert import chat_requests, text_requests
from inference.edge.openai.schemas import ChatCompletionIn, CompletionIn, GenerationIn
from inference.edge.openai.wire import OpenAIWire
from inference.edge.prompt_bounds import refuse_hopeless
from inference.edge.replies import reply
from inference.protocol.requests import GenerateRequest

router = Router(tags=["openai"])


@router.post("/chat/completions", response={200: dict[str, Any]}, summary="Chat completion")
async def chat_completions(
    request: HttpRequest, body: ChatCompletionIn
) -> dict[str, Any] | StreamingHttpResponse:
    """An answer to a chat; with `stream` as server-sent events."""
    context = await submit_context(request, body.model)
    return await _reply(request, body, context, chat_requests(body, context))


@router.post(
    "/chat/completions/control", response={200: dict[str, Any]}, summary="End an answer's reasoning"
)
async def chat_control(request: HttpRequest, body: ControlIn) -> dict[str, Any]:
    """Whether there was an answer with `reasoning_control` to be told."""
    return await control(body, caller_of(request))


@router.post("/completions", response={200: dict[str, Any]}, summary="Text completion")
async def completions(
    request: HttpRequest, body: CompletionIn
) -> dict[str, Any] | StreamingHttpResponse:
    """The continuation of one or several texts; with `stream` as server-sent events."""
    context = await submit_context(request, body.model)
    return await _reply(request, body, context, text_requests(body, context))


async def _reply(
    request: HttpRequest,
    body: GenerationIn,
    context: SubmitContext,
    requests: list[GenerateRequest],
) -> dict[str, Any] | StreamingHttpResponse:
    await refuse_hopeless(context.model, [each.prompt for each in requests])
    return await reply(
        requests,
        OpenAIWire(requests),
        stream=body.stream,
        ping_s=ping_s(body.sse_ping_interval),
        caller=caller_of(request),
    )
