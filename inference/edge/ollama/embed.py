"""Vectors in Ollama's shapes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import orjson
from django.http import HttpRequest, HttpResponse

from inference.edge.asking import SubmitContext
from inference.edge.embeddings.asking import utility_fields, vector_context
from inference.edge.embeddings.inputs import refuse_many
from inference.edge.ollama.names import by_name
from inference.edge.ollama.schemas import EmbeddingsIn, EmbedIn
from inference.edge.prompt_bounds import refuse_too_much
from inference.edge.utilities import utility_answer
from inference.engine.vectors import decoded
from inference.protocol.requests import EmbedRequest, TextPrompt
from inference.protocol.results import EmbedResult
from inference.protocol.vectors import EUCLIDEAN, UNCHANGED
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

JSON_TYPE: Final = "application/json; charset=utf-8"
NS_PER_S: Final = 1_000_000_000


async def embed_answer(request: HttpRequest, body: EmbedIn) -> HttpResponse:
    """The answer of /api/embed: vectors of length 1.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
        LlamawebError: however else it ended.
    """
    begun_ts = time.monotonic()
    context = await _context(request, body.model)
    inputs = _inputs(body.input, "input")
    result = EmbedResult((), 0, 0)
    if inputs:
        asked = EmbedRequest(
            **utility_fields(context, "embed-"),
            inputs=inputs,
            normalize=EUCLIDEAN,
            dimensions=body.dimensions,
            is_pooled=True,
            truncates=body.truncate,
        )
        result = await utility_answer(asked, EmbedResult)
    total_ns = round((time.monotonic() - begun_ts) * NS_PER_S)
    return await _written(
        lambda: {
            "model": context.model,
            "embeddings": _rows(result),
            "total_duration": total_ns,
            "load_duration": 0,
            "prompt_eval_count": result.prompt_tokens,
        }
    )


async def embedding_answer(request: HttpRequest, body: EmbeddingsIn) -> HttpResponse:
    """The answer of /api/embeddings, the older form: one vector, as the model makes it.

    Raises:
        LlamawebError: as `embed_answer`.
    """
    context = await _context(request, body.model)
    inputs = _inputs(body.prompt or None, "prompt")
    result = EmbedResult((), 0, 0)
    if inputs:
        asked = EmbedRequest(
            **utility_fields(context, "embed-"),
            inputs=inputs,
            normalize=UNCHANGED,
            is_pooled=True,
            truncates=True,
        )
        result = await utility_answer(asked, EmbedResult)
    return await _written(lambda: {"embedding": next(iter(_rows(result)), [])})


async def _context(request: HttpRequest, model: str | None) -> SubmitContext:
    return await by_name(model, lambda name: vector_context(request, name, "embedding"))


def _inputs(value: Any, param: str) -> tuple[TextPrompt, ...]:
    if value is None:
        return ()
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list):
        raise InvalidError("must be text or a list of texts", param=param)
    refuse_many(len(texts), param)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidError("must be text", param=f"{param}[{index}]")
    prompts = tuple(TextPrompt(valid_text(text)) for text in texts)
    refuse_too_much(prompts, 1, param=param)
    return prompts


def _rows(result: EmbedResult) -> list[list[float]]:
    return [row for each in result.vectors for row in decoded(each, result.dimensions).tolist()]


async def _written(body_of: Callable[[], dict[str, Any]]) -> HttpResponse:
    """In a thread: many vectors take a while."""
    content = await asyncio.to_thread(lambda: orjson.dumps(body_of()))
    return HttpResponse(content, content_type=JSON_TYPE)
