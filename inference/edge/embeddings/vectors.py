"""Vectors for an answer: asked for, and written in OpenAI's or llama-server's shape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import orjson
from django.http import HttpRequest, HttpResponse

from inference.edge.embeddings.asking import utility_fields, vector_context
from inference.edge.embeddings.inputs import inputs_of
from inference.edge.embeddings.schemas import EmbeddingsIn
from inference.edge.utilities import utility_answer
from inference.engine.vectors import decoded
from inference.protocol.requests import EmbedRequest
from inference.protocol.results import EmbedResult
from llamaweb.lib.errors import InvalidError

JSON_TYPE: Final = "application/json; charset=utf-8"
FEW_CHARS: Final = 65_536  # of vectors; more are written in a thread


async def answer(request: HttpRequest, body: EmbeddingsIn, *, is_native: bool) -> HttpResponse:
    """The vectors of a request. `content` has the native shape whatever was called.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
        LlamawebError: however else it ended.
    """
    param = "input" if body.input is not None or body.content is None else "content"
    is_native = is_native or param == "content"
    context = await vector_context(request, body.model, "embedding")
    asked = EmbedRequest(
        **utility_fields(context, "embed-"),
        inputs=inputs_of(body.input if param == "input" else body.content, param),
        normalize=body.embd_normalize,
        dimensions=body.dimensions,
        is_pooled=not is_native,
    )
    if is_native and body.encoding_format != "float":
        raise InvalidError("must be float where llama-server's shape is", param="encoding_format")
    result = await utility_answer(asked, EmbedResult)

    def body_of() -> Any:
        if is_native:
            return native_body(result)
        return openai_body(result, body.model or context.model, body.encoding_format)

    return await _written(body_of, num_chars=sum(map(len, result.vectors)))


def native_body(result: EmbedResult) -> list[dict[str, Any]]:
    """llama-server's shape: rows of numbers, one row an input or one a token."""
    return [
        {"index": index, "embedding": list(decoded(vectors, result.dimensions))}
        for index, vectors in enumerate(result.vectors)
    ]


def openai_body(result: EmbedResult, model: str, encoding_format: str) -> dict[str, Any]:
    """OpenAI's shape: numbers, or base64 of little-endian 32-bit floats."""
    is_base64 = encoding_format == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": vectors if is_base64 else decoded(vectors, result.dimensions)[0],
            **({"encoding_format": "base64"} if is_base64 else {}),
        }
        for index, vectors in enumerate(result.vectors)
    ]
    return {
        "object": "list",
        "model": model,
        "data": data,
        "usage": {"prompt_tokens": result.prompt_tokens, "total_tokens": result.prompt_tokens},
    }


async def _written(body_of: Callable[[], Any], *, num_chars: int) -> HttpResponse:
    """The response. Millions of numbers take a while, in which nobody else is to wait."""

    def write() -> bytes:
        return orjson.dumps(body_of(), option=orjson.OPT_SERIALIZE_NUMPY)

    data = write() if num_chars <= FEW_CHARS else await asyncio.to_thread(write)
    return HttpResponse(data, content_type=JSON_TYPE)
