"""Routes of the Anthropic family; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router

from inference.edge.anthropic.convert import count_request, message_request
from inference.edge.anthropic.render import MessageWire
from inference.edge.anthropic.schemas import MessagesIn, PromptIn
from inference.edge.asking import caller_of, ping_s, submit_context
from inference.edge.prompt_bounds import refuse_hopeless
from inference.edge.replies import reply
from inference.edge.utilities import utility_answer
from inference.protocol.results import CountResult

router = Router(tags=["anthropic"])


@router.post("/messages", response={200: dict[str, Any]}, summary="Message")
async def messages(
    request: HttpRequest, body: MessagesIn
) -> dict[str, Any] | StreamingHttpResponse:
    """An answer to a chat; with `stream` as server-sent events."""
    context = await submit_context(request, body.model)
    made = message_request(body, context, request.headers.get("User-Agent", ""))
    await refuse_hopeless(context.model, [made.prompt])
    return await reply(
        [made],
        MessageWire(made),
        stream=body.stream,
        ping_s=ping_s(),
        caller=caller_of(request),
    )


@router.post(
    "/messages/count_tokens", response={200: dict[str, int]}, summary="Length of a message's prompt"
)
async def count_tokens(request: HttpRequest, body: PromptIn) -> dict[str, int]:
    """How many tokens the prompt of such a message has; nothing is generated."""
    context = await submit_context(request, body.model)
    result = await utility_answer(count_request(body, context), CountResult)
    return {"input_tokens": result.prompt_tokens}
