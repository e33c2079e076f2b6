"""Who is signed in and which models there are: what the app asks at its start."""

from __future__ import annotations

import asyncio

from django.http import HttpRequest, HttpResponse
from ninja import Router

from conversations.edge.live.bounds import MAX_FRAME_BYTES, MAX_OPEN
from conversations.edge.schemas import TITLE_LEN, Limits, MeOut, ModelList, ModelOut
from conversations.parts import MAX_TEXT_CHARS
from inference import api
from inference.api import EngineSummary, ModelInfo
from llamaweb.accounts.edge.replies import json_reply, user_of
from llamaweb.accounts.models import User
from llamaweb.lib.errors import LlamawebError

router = Router(tags=["me"])

READY_TIMEOUT_S = 1.0  # for the engines of all models together
NO_ANSWER = "the queue can't be reached"
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
    infos = await api.model_list_for(user.pk)
    return MeOut.model_validate(
        {
            "username": user.get_username(),
            "is_staff": user.is_staff,
            "theme": user.theme,
            "language": user.language,
            "models": await _models(infos),
            "has_only_starter_model": bool(infos) and all(info.is_demo for info in infos),
            "limits": LIMITS,
        }
    )


@router.get("/models", response=ModelList, summary="Models")
async def models(request: HttpRequest) -> HttpResponse:
    """All that may be chosen, and whether they answer now."""
    infos = await api.model_list_for(user_of(request).pk)
    return json_reply(ModelList(models=await _models(infos)))


async def _models(infos: list[ModelInfo]) -> list[ModelOut]:
    summaries = await _summaries(infos)
    return [
        ModelOut(
            name=info.name,
            is_default=not index,
            is_ready=summary.ready,
            reason=summary.reason,
            max_context=summary.max_context,
        )
        for index, (info, summary) in enumerate(zip(infos, summaries, strict=True))
    ]


async def _summaries(infos: list[ModelInfo]) -> list[EngineSummary]:
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            return await asyncio.gather(*(_summary(info) for info in infos))
    except TimeoutError:
        return [EngineSummary(False, NO_ANSWER, info.name) for info in infos]


async def _summary(info: ModelInfo) -> EngineSummary:
    try:
        return await api.engine_status(info.name)
    except LlamawebError as error:
        return EngineSummary(False, error.message, info.name)
