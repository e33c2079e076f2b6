"""GET /models and /models/NAME; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest
from ninja import Router

from inference import api
from inference.edge.models.permissions import administrator, is_administrator
from inference.edge.models.render import list_body, model_body
from inference.edge.models.status import ModelStatus, status_of
from inference.models import ModelFile
from inference.registry.model_cards import Download, ModelCard, downloads_open
from inference.registry.scan import models_scan
from llamaweb.accounts.auth import ApiKeyAuth
from llamaweb.accounts.caller import Caller
from llamaweb.accounts.database import in_database
from llamaweb.accounts.models import Scope
from llamaweb.lib.errors import LlamawebError

router = Router(tags=["models"])

MODELS_AUTH = ApiKeyAuth(Scope.MODELS_READ, Scope.INFERENCE)
STATUS_TIMEOUT_S = 1.0  # for the engines of all models together
YES = ("1", "true")


@router.get("/models", auth=MODELS_AUTH, response={200: dict[str, Any]}, summary="Models")
async def models(request: HttpRequest) -> dict[str, Any]:
    """All models that may be named in a request, the default one first. With `reload=1` the models
    directory is looked through before, which takes an administrator's key."""
    caller: Caller = request.auth  # type: ignore[attr-defined]
    if request.GET.get("reload") in YES:
        await in_database(_reload)(caller, request.META.get("REMOTE_ADDR"))
    cards = await api.model_cards_for(caller.user_id)
    more: list[Download] = []
    if Scope.ADMIN.value in caller.scopes:
        more = await in_database(_downloads)(caller)
    return list_body(list(zip(cards, await _statuses(cards), strict=True)), more)


@router.get(
    "/models/{path:name}",
    auth=MODELS_AUTH,
    response={200: dict[str, Any]},
    summary="One model",
)
async def model(request: HttpRequest, name: str) -> dict[str, Any]:
    """One model, by its name or an alias."""
    caller: Caller = request.auth  # type: ignore[attr-defined]
    card = await api.model_card_for(caller.user_id, name)
    (status,) = await _statuses([card])
    return model_body(card, status)


def _reload(caller: Caller, address: str | None) -> None:
    actor = administrator(caller, "change", ModelFile)
    models_scan(actor=actor, address=address)


def _downloads(caller: Caller) -> list[Download]:
    return downloads_open() if is_administrator(caller, "change") else []


async def _statuses(cards: Sequence[ModelCard]) -> list[ModelStatus]:
    """The list is of use without the queue, too."""
    try:
        async with asyncio.timeout(STATUS_TIMEOUT_S):
            return await asyncio.gather(*(_status(card) for card in cards))
    except TimeoutError:
        return [status_of(card.info, ()) for card in cards]


async def _status(card: ModelCard) -> ModelStatus:
    try:
        return status_of(card.info, await api.engine_list(card.info.name))
    except LlamawebError:
        return status_of(card.info, ())
