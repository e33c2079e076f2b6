"""llama-server's additions to the routes of OpenAI; mounted below /v1 by `llamaweb.api`."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from inference.edge.asking import submit_context
from inference.edge.native import tokens
from inference.edge.openai.schemas import ChatCompletionIn
from llamaweb.lib.errors import NotSupportedError

router = Router(tags=["llama-server"])


@router.post(
    "/chat/completions/input_tokens", response={200: dict[str, Any]}, summary="Count a chat"
)
async def input_tokens(request: HttpRequest, body: ChatCompletionIn) -> dict[str, Any]:
    """How many tokens the prompt of a chat has."""
    return await tokens.count_tokens(body, await submit_context(request, body.model))


@router.post("/audio/transcriptions", response={200: dict[str, Any]}, summary="Transcribe audio")
async def transcriptions(request: HttpRequest) -> dict[str, Any]:
    """No model here hears."""
    raise NotSupportedError("This model does not support audio input.")
