"""An API of the OpenAI family whose routes fail in every way; see test_errors."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import path
from ninja import Router, Schema
from pydantic import BaseModel, Field

from inference.edge.urls import urlpatterns as edge_urls
from llamaweb.accounts.auth import ApiKeyAuth
from llamaweb.accounts.models import Scope
from llamaweb.api import key_family, not_found
from llamaweb.api_errors import OPENAI
from llamaweb.lib import errors

router = Router()
RAISED: dict[str, Exception] = {
    "invalid": errors.InvalidError("temperature must be at most 2", param="temperature"),
    "too_long": errors.TooLongError(prompt_tokens=9000, max_context=8192),
    "authentication": errors.AuthenticationError("Invalid API Key"),
    "forbidden": errors.ForbiddenError("not yours to do"),
    "not_found": errors.NotFoundError("no such model"),
    "busy": errors.BusyError("your queue is full", reason="owner_queue_full", retry_after_s=2.6),
    "unavailable": errors.UnavailableError("loading"),
    "failed": errors.FailedError("the engine failed"),
    "unexpected": RuntimeError("secret detail"),
}


class Message(BaseModel):
    """One chat message."""

    role: str
    content: str | list[dict[str, Any]] | None = None


class Payload(Schema):
    """A body with a list and a bound."""

    messages: list[Message] = Field(min_length=1)
    temperature: float = Field(default=1.0, ge=0, le=2)


@router.get("/raise/{name}")
async def fail(request: HttpRequest, name: str) -> None:
    """Raise the error of that name."""
    raise RAISED[name]


@router.post("/broken")
async def broken(request: HttpRequest) -> None:
    """Our own mistake with a caller's text."""
    Payload.model_validate({"messages": "a private prompt"})


@router.get("/whoami")
async def whoami(request: HttpRequest) -> dict[str, Any]:
    """The caller's name."""
    return {"user": request.auth.username}  # type: ignore[attr-defined]


@router.get("/models", auth=ApiKeyAuth(Scope.MODELS_READ, Scope.INFERENCE))
async def models(request: HttpRequest) -> dict[str, Any]:
    """Two scopes are good here."""
    return {"user": request.auth.username}  # type: ignore[attr-defined]


@router.get("/admin", auth=ApiKeyAuth(Scope.ADMIN))
async def admin(request: HttpRequest) -> dict[str, Any]:
    """Administrators' keys only."""
    return {"user": request.auth.username}  # type: ignore[attr-defined]


@router.post("/chat")
async def chat(request: HttpRequest, payload: Payload) -> dict[str, Any]:
    """Count the messages."""
    return {"messages": len(payload.messages)}


urlpatterns = [
    *edge_urls,
    path("v1/", not_found),
    path("v1/", key_family("tests", OPENAI, router).urls),
    path("v1/<path:_rest>", not_found),
]
handler400 = "llamaweb.api.bad_request"
handler500 = "llamaweb.api.server_error"
