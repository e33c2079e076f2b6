"""Exceptions become responses here and nowhere else; routes just raise.

The handlers are the same for every family of routes, what they say is the family's `Shape`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import pydantic
import structlog
from django.conf import settings
from django.core.exceptions import (
    BadRequest,
    RequestDataTooBig,
    SuspiciousOperation,
    TooManyFieldsSent,
)
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from conversations.edge.errors import (
    AWAY,
    DATABASE_AWAY,
    error_for_status,
    error_out,
    status_of,
)
from conversations.edge.schemas import ErrorBody
from inference.edge.anthropic import errors as anthropic
from inference.edge.errors import ErrorReply, error_body, error_reply
from inference.edge.families import family_of
from inference.edge.instruments import count_rejected
from inference.edge.ollama import errors as ollama
from inference.edge.rejections import BODY_BOUND, DEPTH_BOUND, TOO_DEEP, note_rejection
from llamaweb.accounts.edge.replies import JSON_TYPE, json_reply
from llamaweb.lib.errors import BusyError, InvalidError, LlamawebError, UnavailableError
from llamaweb.lib.json_path import first_finding, json_path

log = structlog.get_logger(__name__)

MAX_MESSAGE_LEN = 500


@dataclass(frozen=True, slots=True)
class Shape:
    """How a family words its errors. `expected`: an error of ours. `plain`: a status and a
    sentence; `request_id` under which the log has more, if it is our fault."""

    expected: Callable[[LlamawebError], HttpResponse]
    plain: Callable[[int, str, str], HttpResponse]


def respond(reply: ErrorReply) -> HttpResponse:
    """An error of an API as a response."""
    return HttpResponse(
        orjson.dumps(reply.body),
        status=reply.status,
        content_type=JSON_TYPE,
        headers=reply.headers,
    )


def _openai_plain(status: int, message: str, request_id: str) -> HttpResponse:
    more = {"request_id": request_id} if request_id else {}
    return respond(ErrorReply(status, error_body(status, message, **more)))


def _app_expected(error: LlamawebError) -> HttpResponse:
    response = json_reply(ErrorBody(error=error_out(error)), status_of(error))
    if isinstance(error, BusyError):
        response["Retry-After"] = str(error.retry_after_whole_s)
    return response


def _app_plain(status: int, message: str, request_id: str) -> HttpResponse:
    return json_reply(ErrorBody(error=error_for_status(status, message)), status)


def _anthropic_plain(status: int, message: str, request_id: str) -> HttpResponse:
    return respond(ErrorReply(status, anthropic.error_body(status, message, request_id)))


def _ollama_plain(status: int, message: str, request_id: str) -> HttpResponse:
    return respond(ErrorReply(status, ollama.error_body(message)))


OPENAI = Shape(lambda error: respond(error_reply(error)), _openai_plain)
ANTHROPIC = Shape(lambda error: respond(anthropic.anthropic_reply(error)), _anthropic_plain)
OLLAMA = Shape(lambda error: respond(ollama.ollama_reply(error)), _ollama_plain)
APP = Shape(_app_expected, _app_plain)


def field_path(location: tuple[Any, ...]) -> str | None:
    """ninja's ("body", "payload", "messages", 0, "role") as `messages[0].role`."""
    return json_path(location[2:] if location[:1] == ("body",) else location[1:])


def internal_error(shape: Shape, request: HttpRequest) -> HttpResponse:
    """Our fault: details go to the log, the id to the client."""
    request_id = request.META.get("llamaweb.request_id", "")
    return shape.plain(500, f"internal error; the log has more under {request_id}", request_id)


def _unreadable_text(error: Exception) -> str:
    """Of Django's findings where it looks for fields; their own texts name its settings."""
    if isinstance(error, TooManyFieldsSent):
        return f"a form or query has at most {settings.DATA_UPLOAD_MAX_NUMBER_FIELDS} fields"
    return "the form in the body can't be read"


def _places(error: pydantic.ValidationError) -> list[dict[str, Any]]:
    """What pydantic found and where; its text holds the value, which may be a prompt."""
    errors = error.errors(include_input=False, include_context=False, include_url=False)
    return [{"loc": item["loc"], "type": item["type"]} for item in errors]


def add_handlers(api: NinjaAPI, shape: Shape) -> None:
    """Let `api` answer every exception in `shape`."""

    def expected(request: HttpRequest, error: Any) -> HttpResponse:
        if shape is not APP:
            note_rejection(request.path_info, error)
        return shape.expected(error)

    def invalid(request: HttpRequest, error: Any) -> HttpResponse:
        """ninja's and pydantic's findings: the first one, by its JSON path."""
        param, message = first_finding(error.errors, "invalid request", field_path)
        message = message[:MAX_MESSAGE_LEN]
        text = f"{param}: {message}" if param else message
        is_deep = any(found.get("type") == TOO_DEEP for found in error.errors[:1])
        bound = DEPTH_BOUND if is_deep else ""
        return expected(request, InvalidError(text, param=param, bound=bound))

    def http(request: HttpRequest, error: Any) -> HttpResponse:
        if isinstance(error.__cause__, LlamawebError):  # ninja wraps what a parser raises
            return expected(request, error.__cause__)
        if isinstance(error.__cause__, RequestDataTooBig):
            return too_big(request, error)
        return shape.plain(error.status_code, error.message, "")

    def absent(_request: HttpRequest, _error: Any) -> HttpResponse:
        return shape.plain(404, "File Not Found", "")

    def too_big(request: HttpRequest, _error: Any) -> HttpResponse:
        if shape is not APP:
            count_rejected(family_of(request.path_info), BODY_BOUND)
        return shape.plain(413, "the request body is too large", "")

    def unreadable(request: HttpRequest, error: Any) -> HttpResponse:
        return expected(request, InvalidError(_unreadable_text(error)))

    def database_away(request: HttpRequest, error: Any) -> HttpResponse:
        log.error("database_away", path=request.path, exc_info=error)
        return expected(request, UnavailableError(AWAY))

    def unexpected(request: HttpRequest, error: Any) -> HttpResponse:
        log.error("unexpected_error", path=request.path, exc_info=error)
        return internal_error(shape, request)

    def unexpected_value(request: HttpRequest, error: Any) -> HttpResponse:
        log.error("unexpected_value", path=request.path, model=error.title, errors=_places(error))
        return internal_error(shape, request)

    handlers: tuple[tuple[type[Exception], Any], ...] = (
        (LlamawebError, expected),
        (ValidationError, invalid),
        (HttpError, http),
        (Http404, absent),
        (RequestDataTooBig, too_big),
        *((kind, unreadable) for kind in (SuspiciousOperation, BadRequest, MultiPartParserError)),
        (pydantic.ValidationError, unexpected_value),
        *((kind, database_away) for kind in DATABASE_AWAY),
        (Exception, unexpected),
    )
    for kind, handler in handlers:
        api.add_exception_handler(kind, handler)
