"""Who is signed in and which models there are: what the app asks at its start."""

from __future__ import annotations

import asyncio

from django.http import HttpRequest, HttpResponse
from ninja import Router

from conversations.edge.live.bounds import MAX_FRAME_BYTES, MAX_OPEN
from conversations.edge.mappers import models_out
from conversations.edge.schemas import TITLE_LEN, Limits, MeOut, ModelList, ModelOut
from conversations.parts import MAX_TEXT_CHARS
from inference import api
from inference.api import ModelChoice, ModelStand
from inference.protocol.reasons import reason
from llamaweb.accounts.edge.replies import json_reply, user_of
from llamaweb.accounts.models import User
from llamaweb.lib.errors import UnavailableError

router = Router(tags=["me"])

READY_TIMEOUT_S = 1.0  # for the engines of all models together
NO_ANSWER = reason("the queue can't be reached")
LIMITS = Limits(
    text_chars=MAX_TEXT_CHARS,
    title_chars=TITLE_LEN,
    open_conversations=MAX_OPEN,
    frame_bytes=MAX_FRAME_BYTES,
)


@router.get("/me", response=MeOut, summary="Who is signed in")
async def me(request: HttpRequest) -> HttpResponse:
    """The user, their preferences, models and bounds."""
    return json_reply(await me_state(user_of(request)))


async def me_state(user: User) -> MeOut:
    """The same for the page that brings it along."""
    choices = await api.model_choices_for(user.pk)
    return MeOut.model_validate(
        {
            "username": user.get_username(),
            "is_staff": user.is_staff,
            "theme": user.theme,
            "language": user.language,
            "models": await _models(choices),
            "has_only_starter_model": bool(choices) and all(c.info.is_demo for c in choices),
            "limits": LIMITS,
        }
    )


@router.get("/models", response=ModelList, summary="Models")
async def models(request: HttpRequest) -> HttpResponse:
    """All that may be chosen, and how each stands now."""
    choices = await api.model_choices_for(user_of(request).pk)
    return json_reply(ModelList(models=await _models(choices)))


async def _models(choices: list[ModelChoice]) -> list[ModelOut]:
    return models_out(choices, await _stands(choices))


async def _stands(choices: list[ModelChoice]) -> list[ModelStand]:
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            return await api.model_stands([choice.info for choice in choices])
    except (TimeoutError, UnavailableError):
        return [ModelStand("unknown", NO_ANSWER)] * len(choices)
