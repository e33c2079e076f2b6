"""How well texts answer a query, in Jina's or TEI's shape."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from inference.edge.embeddings.asking import utility_fields, vector_context
from inference.edge.embeddings.inputs import texts_of
from inference.edge.embeddings.schemas import RerankIn
from inference.edge.prompt_bounds import refuse_so_many_chars
from inference.edge.utilities import utility_answer
from inference.protocol.requests import RerankRequest
from inference.protocol.results import RerankResult
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError, TooLongError


async def answer(request: HttpRequest, body: RerankIn) -> dict[str, Any] | list[dict[str, Any]]:
    """The texts' scores, best first.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
        LlamawebError: however else it ended.
    """
    if not isinstance(body.query, str):
        raise InvalidError('"query" must be provided as a string', param="query")
    context = await vector_context(request, body.model, "reranking")
    query, texts = valid_text(body.query), texts_of(body.texts_value, body.texts_name)
    num_chars = len(query) * len(texts) + sum(map(len, texts))  # the query is read with each
    refuse_so_many_chars(num_chars, 1, param=body.texts_name)
    asked = RerankRequest(
        **utility_fields(context, "rerank-"), query=query, documents=texts, truncates=body.truncate
    )
    try:
        result = await utility_answer(asked, RerankResult)
    except TooLongError as error:
        raise _in_its_words(error, body) from None
    best = sorted(enumerate(result.scores), key=lambda item: (-item[1], item[0]))[: body.top_n]
    if body.is_tei:
        return [
            {"index": i, "score": score, **({"text": texts[i]} if body.return_text else {})}
            for i, score in best
        ]
    return {
        "object": "list",
        "model": body.model or context.model,
        "results": [{"index": i, "relevance_score": score} for i, score in best],
        "usage": {"prompt_tokens": result.prompt_tokens, "total_tokens": result.prompt_tokens},
    }


def _in_its_words(error: TooLongError, body: RerankIn) -> TooLongError:
    """`error` with the path that the client knows."""
    param = error.param
    if param is not None:
        param = param.replace("documents", body.texts_name, 1)
    return TooLongError(
        prompt_tokens=error.prompt_tokens,
        max_context=error.max_context,
        at_least=error.at_least,
        param=param,
    )
