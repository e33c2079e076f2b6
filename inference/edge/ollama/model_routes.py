"""Routes of the Ollama family about models; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from django.http import HttpRequest
from ninja import Router

from inference import api
from inference.edge.asking import caller_of
from inference.edge.ollama.catalogue import API_VERSION, model_entry, running_entry, sheet
from inference.edge.ollama.names import by_name
from inference.edge.ollama.schemas import ShowIn
from inference.queues.contract import EngineStatus
from inference.registry.model_cards import ModelCard
from llamaweb.accounts.auth import ApiKeyAuth
from llamaweb.accounts.models import Scope
from llamaweb.lib.errors import NotSupportedError, UnavailableError

router = Router(tags=["ollama"])

MODELS_AUTH = ApiKeyAuth(Scope.MODELS_READ, Scope.INFERENCE)
STATUS_TIMEOUT_S: Final = 5.0  # for the engines of all models together
ELSEWHERE: Final = (
    "this server's models are administered at /admin/, or with POST and DELETE /models; "
    "Ollama's way isn't supported"
)


@router.get("/tags", auth=MODELS_AUTH, response={200: dict[str, Any]}, summary="Models")
async def tags(request: HttpRequest) -> dict[str, Any]:
    """All models that may be named in a request, the default one first."""
    return {"models": list(map(model_entry, await _cards(request)))}


@router.get("/ps", auth=MODELS_AUTH, response={200: dict[str, Any]}, summary="Models in memory")
async def running(request: HttpRequest) -> dict[str, Any]:
    """Those of them that are in memory."""
    cards = await _cards(request)
    pairs = zip(cards, await _engines(cards), strict=True)
    entries = (running_entry(card, engines) for card, engines in pairs)
    return {"models": [entry for entry in entries if entry is not None]}


@router.post("/show", auth=MODELS_AUTH, response={200: dict[str, Any]}, summary="One model")
async def show(request: HttpRequest, body: ShowIn) -> dict[str, Any]:
    """What is known of a model."""
    user_id, only = caller_of(request).user_id, caller_of(request).model_names
    name = body.model if body.model is not None else body.name
    card = await by_name(name, lambda each: api.model_card_for(user_id, each, only))
    template = await api.chat_template_for(user_id, card.info.name, only)
    return sheet(card, template)


@router.get("/version", auth=MODELS_AUTH, response={200: dict[str, Any]}, summary="Version")
async def version(request: HttpRequest) -> dict[str, Any]:
    """Of Ollama's API, as far as it is followed here."""
    return {"version": API_VERSION}


@router.post("/pull", include_in_schema=False)
@router.post("/push", include_in_schema=False)
@router.post("/create", include_in_schema=False)
@router.post("/copy", include_in_schema=False)
@router.delete("/delete", include_in_schema=False)
async def administered(request: HttpRequest) -> dict[str, Any]:
    """Says where models are administered.

    Raises:
        NotSupportedError: always.
    """
    raise NotSupportedError(ELSEWHERE)


@router.api_operation(["HEAD", "POST"], "/blobs/{digest}", include_in_schema=False)
async def blobs(request: HttpRequest, digest: str) -> dict[str, Any]:
    """As `administered`: pieces of models that are to be created.

    Raises:
        NotSupportedError: always.
    """
    raise NotSupportedError(ELSEWHERE)


async def _cards(request: HttpRequest) -> list[ModelCard]:
    caller = caller_of(request)
    return await api.model_cards_for(caller.user_id, caller.model_names)


async def _engines(cards: Sequence[ModelCard]) -> list[tuple[EngineStatus, ...]]:
    try:
        async with asyncio.timeout(STATUS_TIMEOUT_S):
            return await asyncio.gather(*(api.engine_list(card.info.name) for card in cards))
    except TimeoutError:
        raise UnavailableError("the server's Redis doesn't answer; try again") from None
