"""The routes of models; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router

from inference import api
from inference.edge.models import acts
from inference.edge.models.permissions import ADMINISTERS, is_administrator
from inference.edge.models.render import list_body, model_body
from inference.edge.models.schemas import ModelIn
from inference.edge.models.status import ModelStatus, status_of
from inference.edge.models.watch import ModelEvents, watch_here
from inference.registry.model_cards import Download, ModelCard, downloads_open
from llamaweb.accounts.auth import ApiKeyAuth
from llamaweb.accounts.caller import Caller
from llamaweb.accounts.database import in_database
from llamaweb.accounts.models import Scope
from llamaweb.lib.errors import InvalidError, LlamawebError
from llamaweb.lib.event_stream import CONTENT_TYPE, HEADERS

router = Router(tags=["models"])

MODELS_AUTH = ApiKeyAuth(Scope.MODELS_READ, Scope.INFERENCE)
ADMIN_AUTH = ApiKeyAuth(Scope.MODELS_WRITE)
LIST_AUTH = ApiKeyAuth(Scope.MODELS_READ, Scope.INFERENCE, Scope.MODELS_WRITE)
SUCCESS = {"success": True}
STATUS_TIMEOUT_S = 1.0  # for the engines of all models together
YES = ("1", "true")


@router.get("/models", auth=LIST_AUTH, response={200: dict[str, Any]}, summary="Models")
async def models(request: HttpRequest) -> dict[str, Any]:
    """All models that may be named in a request, the default one first. With `reload=1` the models
    directory is looked through before, which takes an administrator's key."""
    caller = _caller(request)
    if request.GET.get("reload") in YES:
        await in_database(acts.look_again)(caller, _address(request))
    cards = await api.model_cards_for(caller.user_id, caller.model_names)
    more: list[Download] = []
    if caller.scopes & ADMINISTERS:
        more = await in_database(_downloads)(caller)
    return list_body(list(zip(cards, await _statuses(cards), strict=True)), more)


@router.post("/models", auth=ADMIN_AUTH, response={200: dict[str, Any]}, summary="Fetch a model")
async def fetch(request: HttpRequest, body: ModelIn) -> dict[str, Any]:
    """Download `user/repo:QUANT` of the hub; a model of that name is made of it."""
    await acts.fetch(_caller(request), _named(body.model), _address(request))
    return SUCCESS


@router.delete("/models", auth=ADMIN_AUTH, response={200: dict[str, Any]}, summary="Remove a model")
async def remove(request: HttpRequest, model: str = "") -> dict[str, Any]:
    """Cancel its download, or remove what was downloaded."""
    await in_database(acts.remove)(_caller(request), _named(model), _address(request))
    return SUCCESS


@router.post("/models/load", auth=ADMIN_AUTH, response={200: dict[str, Any]}, summary="Load")
async def load(request: HttpRequest, body: ModelIn) -> dict[str, Any]:
    """An engine starts for it as soon as there is room; `GET /models/sse` tells how it goes."""
    await in_database(acts.load)(_caller(request), _named(body.model), _address(request))
    return SUCCESS


@router.post("/models/unload", auth=ADMIN_AUTH, response={200: dict[str, Any]}, summary="Unload")
async def unload(request: HttpRequest, body: ModelIn) -> dict[str, Any]:
    """Its engine ends within seconds; what runs ends with an error."""
    await in_database(acts.unload)(_caller(request), _named(body.model), _address(request))
    return SUCCESS


@router.get("/models/sse", auth=LIST_AUTH, response={200: None}, summary="Follow the models")
async def events(request: HttpRequest) -> StreamingHttpResponse:
    """What happens from now on to the models that the list has, as server-sent events."""
    watch = watch_here()
    listener = await watch.add(_caller(request))
    content = ModelEvents(watch, listener, life_s=settings.REQUEST_TIMEOUT_S)
    return StreamingHttpResponse(content, content_type=CONTENT_TYPE, headers=HEADERS)


@router.get(
    "/models/{path:name}",
    auth=MODELS_AUTH,
    response={200: dict[str, Any]},
    summary="One model",
)
async def model(request: HttpRequest, name: str) -> dict[str, Any]:
    """One model, by its name or an alias."""
    caller = _caller(request)
    card = await api.model_card_for(caller.user_id, name, caller.model_names)
    (status,) = await _statuses([card])
    return model_body(card, status)


def _caller(request: HttpRequest) -> Caller:
    caller: Caller = request.auth  # type: ignore[attr-defined]
    return caller


def _address(request: HttpRequest) -> str | None:
    return request.META.get("REMOTE_ADDR")


def _named(name: str | None) -> str:
    if not name:
        raise InvalidError(acts.NAMELESS, param="model")
    return name


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
