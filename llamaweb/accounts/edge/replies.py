"""Answers of the browser app's REST API."""

from __future__ import annotations

from typing import cast

from django.http import HttpRequest, HttpResponse
from pydantic import BaseModel

from llamaweb.accounts.models import User

JSON_TYPE = "application/json; charset=utf-8"
NO_STORE = {"Cache-Control": "no-store"}


def user_of(request: HttpRequest) -> User:
    """Who asks, as `SessionAuth` found out."""
    return cast("User", request.auth)  # type: ignore[attr-defined]


def json_of(value: BaseModel) -> bytes:
    """The body that says `value`; costs time for a long conversation, so call it in a thread."""
    return value.model_dump_json().encode()


def json_reply(body: BaseModel | bytes, status: int = 200) -> HttpResponse:
    """A response with `body`; nobody may keep it."""
    content = body if isinstance(body, bytes) else json_of(body)
    return HttpResponse(content, status=status, content_type=JSON_TYPE, headers=NO_STORE)


def empty_reply() -> HttpResponse:
    """Done, and nothing to say; nobody may keep it."""
    return HttpResponse(status=204, headers=NO_STORE)
