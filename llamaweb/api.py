"""The NinjaAPI objects: which routers are mounted where, and one table of errors a family.

A handler here is the only place where an exception becomes a response; routes just raise.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import orjson
import pydantic
import structlog
from asgiref.sync import iscoroutinefunction
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver, resolve
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI, Router
from ninja.errors import HttpError, ValidationError
from ninja.parser import Parser
from ninja.renderers import BaseRenderer

from inference.edge.errors import ErrorReply, error_body, error_reply
from llamaweb.accounts.auth import ApiKeyAuth
from llamaweb.lib.errors import InvalidError, LlamawebError
from llamaweb.lib.json_path import json_path
from llamaweb.lib.json_text import json_value
from llamaweb.page_middleware import is_api

log = structlog.get_logger(__name__)

JSON_TYPE = "application/json; charset=utf-8"
MAX_MESSAGE_LEN = 500


class OrjsonParser(Parser):
    """Bodies are JSON objects whatever the content type says, as in other servers of this API."""

    def parse_body(self, request: HttpRequest) -> Any:
        """The body as an object.

        Raises:
            InvalidError: not JSON, nested too deeply, or not an object.
        """
        data = json_value(request.body)
        if not isinstance(data, dict):
            raise InvalidError("the body must be a JSON object")
        return data


class OrjsonRenderer(BaseRenderer):
    """JSON through orjson."""

    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        """The body of a response."""
        return orjson.dumps(data)


def respond(reply: ErrorReply) -> HttpResponse:
    """An error of the OpenAI family as a response."""
    return HttpResponse(
        orjson.dumps(reply.body),
        status=reply.status,
        content_type=JSON_TYPE,
        headers=reply.headers,
    )


@csrf_exempt
async def not_found(request: HttpRequest, _rest: str = "") -> HttpResponse:
    """Any address below /v1 that nobody serves."""
    return respond(ErrorReply(404, error_body(404, "File Not Found")))


@csrf_exempt
async def without_v1(request: HttpRequest, **_parts: str) -> HttpResponseBase:
    """The same route without its /v1, as llama-server has it for some."""
    match = resolve(f"/v1{request.path_info}")
    response: HttpResponseBase = await match.func(request, **match.kwargs)
    return response


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400: an unknown host name, for one."""
    if is_api(request):
        return respond(ErrorReply(400, error_body(400, "bad request")))
    return defaults.bad_request(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500: what fails outside the routes, in middleware."""
    if is_api(request):
        return respond(ErrorReply(500, _internal(request)))
    return defaults.server_error(request)


def _internal(request: HttpRequest) -> dict[str, Any]:
    request_id = request.META.get("llamaweb.request_id", "")
    message = f"internal error; the log has more under {request_id}"
    return error_body(500, message, request_id=request_id)


def _expected(request: HttpRequest, error: Any) -> HttpResponse:
    return respond(error_reply(error))


def _invalid(request: HttpRequest, error: Any) -> HttpResponse:
    """ninja's and pydantic's findings: the first one, by its JSON path."""
    first = error.errors[0] if error.errors else {"loc": (), "msg": "invalid request"}
    param = field_path(tuple(first["loc"]))
    message = str(first["msg"]).removeprefix("Value error, ")[:MAX_MESSAGE_LEN]
    text = f"{param}: {message}" if param else message
    return respond(ErrorReply(400, error_body(400, text, param=param)))


def field_path(location: tuple[Any, ...]) -> str | None:
    """ninja's ("body", "payload", "messages", 0, "role") as `messages[0].role`."""
    return json_path(location[2:] if location[:1] == ("body",) else location[1:])


def _http(request: HttpRequest, error: Any) -> HttpResponse:
    if isinstance(error.__cause__, LlamawebError):  # ninja wraps what a parser raises
        return respond(error_reply(error.__cause__))
    return respond(ErrorReply(error.status_code, error_body(error.status_code, error.message)))


def _absent(request: HttpRequest, error: Any) -> HttpResponse:
    return respond(ErrorReply(404, error_body(404, "File Not Found")))


def _too_big(request: HttpRequest, error: Any) -> HttpResponse:
    return respond(ErrorReply(413, error_body(413, "the request body is too large")))


def _unexpected(request: HttpRequest, error: Any) -> HttpResponse:
    """Our fault: details go to the log, the id to the client."""
    log.error("unexpected_error", path=request.path, exc_info=error)
    return respond(ErrorReply(500, _internal(request)))


def _unexpected_value(request: HttpRequest, error: Any) -> HttpResponse:
    """As `_unexpected`, but pydantic's text holds the value, which may be a prompt."""
    errors = error.errors(include_input=False, include_context=False, include_url=False)
    places = [{"loc": item["loc"], "type": item["type"]} for item in errors]
    log.error("unexpected_value", path=request.path, model=error.title, errors=places)
    return respond(ErrorReply(500, _internal(request)))


OPENAI_HANDLERS: tuple[tuple[type[Exception], Any], ...] = (
    (LlamawebError, _expected),
    (ValidationError, _invalid),
    (HttpError, _http),
    (Http404, _absent),
    (RequestDataTooBig, _too_big),
    (pydantic.ValidationError, _unexpected_value),
    (Exception, _unexpected),
)


def openai_family(namespace: str, *routers: str | Router) -> NinjaAPI:
    """An API with the keys, the JSON and the errors of the OpenAI family."""
    api = NinjaAPI(
        title="llamaweb: OpenAI-compatible API",
        version="1",
        urls_namespace=namespace,
        auth=ApiKeyAuth(),
        parser=OrjsonParser(),
        renderer=OrjsonRenderer(),
        docs_url=None,  # its page loads scripts from elsewhere
    )
    for kind, handler in OPENAI_HANDLERS:
        api.add_exception_handler(kind, handler)
    for router in routers:
        api.add_router("", router)
    return api


def _in_shape(view: Any) -> Any:
    """`view`, whose refusal of a method is JSON like all others."""

    @csrf_exempt
    @functools.wraps(view)
    async def call(request: HttpRequest, **parts: Any) -> HttpResponseBase:
        response: HttpResponseBase = await view(request, **parts)
        if not isinstance(response, HttpResponseNotAllowed):
            return response
        allowed = response["Allow"]
        body = error_body(405, f"use {allowed}")
        return respond(ErrorReply(405, body, {"Allow": allowed}))

    return call


def family_urls(api: NinjaAPI) -> tuple[Sequence[URLPattern | URLResolver], str, str]:
    """What to mount for `api`."""
    patterns, app_name, namespace = api.urls
    for pattern in patterns:
        if isinstance(pattern, URLPattern) and iscoroutinefunction(pattern.callback):
            pattern.callback = _in_shape(pattern.callback)
    return patterns, app_name, namespace


openai_api = openai_family("openai", "inference.edge.openai.routes.router")
