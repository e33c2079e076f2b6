"""Routes of the Ollama family that ask engines; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

import time
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Router

from inference.edge.asking import SubmitContext, caller_of, ping_s, submit_context
from inference.edge.embeddings.asking import VECTORS_AUTH
from inference.edge.ollama.convert import chat_request, generate_request
from inference.edge.ollama.embed import embed_answer, embedding_answer
from inference.edge.ollama.messages import refuse_images
from inference.edge.ollama.names import by_name
from inference.edge.ollama.options import ReplyKind, asks_to_unload
from inference.edge.ollama.render import OllamaWire, kept_body
from inference.edge.ollama.residency import keep
from inference.edge.ollama.schemas import (
    ChatIn,
    EmbeddingsIn,
    EmbedIn,
    GenerateIn,
    OllamaGenerationIn,
)
from inference.edge.prompt_bounds import refuse_hopeless
from inference.edge.replies import reply
from inference.protocol.requests import GenerateRequest

router = Router(tags=["ollama"])


@router.post("/chat", response={200: dict[str, Any]}, summary="Chat")
async def chat(request: HttpRequest, body: ChatIn) -> dict[str, Any] | StreamingHttpResponse:
    """An answer to a chat, a line of JSON a piece; without messages the model is loaded."""
    unload = asks_to_unload(body.keep_alive)
    if not body.messages:
        return await _kept(request, body, "chat", unload=unload)
    context = await _context(request, body.model)
    return await _reply(request, body, chat_request(body, context))


@router.post("/generate", response={200: dict[str, Any]}, summary="Generate")
async def generate(
    request: HttpRequest, body: GenerateIn
) -> dict[str, Any] | StreamingHttpResponse:
    """An answer to a prompt, a line of JSON a piece; without one the model is loaded."""
    unload = asks_to_unload(body.keep_alive)
    if not body.prompt and not body.suffix:
        refuse_images(body.images, "images")
        return await _kept(request, body, "generate", unload=unload)
    context = await _context(request, body.model)
    return await _reply(request, body, generate_request(body, context))


@router.post("/embed", auth=VECTORS_AUTH, response={200: dict[str, Any]}, summary="Embed")
async def embed(request: HttpRequest, body: EmbedIn) -> HttpResponse:
    """Vectors of one or several texts."""
    return await embed_answer(request, body)


@router.post(
    "/embeddings",
    auth=VECTORS_AUTH,
    response={200: dict[str, Any]},
    summary="Embed one text",
    deprecated=True,
)
async def embeddings(request: HttpRequest, body: EmbeddingsIn) -> HttpResponse:
    """The vector of one text."""
    return await embedding_answer(request, body)


async def _context(request: HttpRequest, model: str | None) -> SubmitContext:
    return await by_name(model, lambda name: submit_context(request, name))


async def _kept(
    request: HttpRequest, body: OllamaGenerationIn, kind: ReplyKind, *, unload: bool
) -> dict[str, Any]:
    info = await keep(request, body.model, unload=unload)
    return kept_body(kind, info.name, int(time.time()), unload=unload)


async def _reply(
    request: HttpRequest, body: OllamaGenerationIn, asked: GenerateRequest
) -> dict[str, Any] | StreamingHttpResponse:
    await refuse_hopeless(asked.model, [asked.prompt])
    return await reply(
        [asked],
        OllamaWire(asked),
        stream=body.stream,
        ping_s=ping_s(),
        caller=caller_of(request),
    )
