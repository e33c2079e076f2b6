"""The same without /v1, as llama-server has it; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from inference.edge.embeddings import scores, vectors
from inference.edge.embeddings.asking import VECTORS_AUTH
from inference.edge.embeddings.schemas import EmbeddingsIn, RerankIn

router = Router(tags=["embeddings"])


@router.post(
    "/embedding",
    auth=VECTORS_AUTH,
    response={200: list[dict[str, Any]]},
    summary="Texts to vectors",
)
@router.post(
    "/embeddings",
    auth=VECTORS_AUTH,
    response={200: list[dict[str, Any]]},
    include_in_schema=False,
)
async def embedding(request: HttpRequest, body: EmbeddingsIn) -> HttpResponse:
    """Rows of numbers for each text: one, or one a token of models that pool nothing."""
    return await vectors.answer(request, body, is_native=True)


@router.post(
    "/rerank",
    auth=VECTORS_AUTH,
    response={200: dict[str, Any] | list[dict[str, Any]]},
    summary="Texts by how well they answer a query",
)
@router.post(
    "/reranking",
    auth=VECTORS_AUTH,
    response={200: dict[str, Any] | list[dict[str, Any]]},
    include_in_schema=False,
)
async def rerank(request: HttpRequest, body: RerankIn) -> dict[str, Any] | list[dict[str, Any]]:
    """A score of each text by a reranking model, best first."""
    return await scores.answer(request, body)
