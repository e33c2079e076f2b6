"""The NinjaAPI objects: which routers are mounted where, with which keys, JSON and errors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import orjson
from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver, path, resolve
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI, Router
from ninja.parser import Parser
from ninja.renderers import BaseRenderer

from conversations.edge.session_auth import SessionAuth
from inference.edge.health import health
from inference.edge.refusals import ANTHROPIC_PREFIX, OLLAMA_PREFIX
from inference.edge.vertex.routes import URL_NAME
from inference.text.depth import MAX_DEPTH, is_deep
from llamaweb.accounts.auth import ApiKeyAuth
from llamaweb.api_errors import ANTHROPIC, APP, OLLAMA, OPENAI, Shape, add_handlers, internal_error
from llamaweb.lib.errors import InvalidError
from llamaweb.lib.json_text import json_value
from llamaweb.page_middleware import is_api, is_app

ABSENT = "File Not Found"
# Of families that don't have the shape of the others.
SHAPES = ((ANTHROPIC_PREFIX, ANTHROPIC), (OLLAMA_PREFIX, OLLAMA))
# Of a whole body, whatever fields it has; those that are read have a narrower bound.
MAX_BODY_DEPTH = 2 * MAX_DEPTH


class OrjsonParser(Parser):
    """Bodies are JSON objects whatever the content type says, as in other servers of this API."""

    def parse_body(self, request: HttpRequest) -> Any:
        """The body as an object.

        Raises:
            InvalidError: not JSON, nested too deeply, or not an object.
        """
        body = request.body
        data = json_value(body)
        if not isinstance(data, dict):
            raise InvalidError("the body must be a JSON object")
        # Few bodies have so many brackets, and counting them costs next to nothing.
        has_many = body.count(b"[") + body.count(b"{") > MAX_BODY_DEPTH
        if has_many and is_deep(data, MAX_BODY_DEPTH):
            raise InvalidError(
                f"the body is nested too deeply, at most {MAX_BODY_DEPTH} levels are allowed",
                bound="depth",
            )
        return data


class OrjsonRenderer(BaseRenderer):
    """JSON through orjson."""

    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        """The body of a response."""
        return orjson.dumps(data)


@csrf_exempt
async def not_found(request: HttpRequest, _rest: str = "") -> HttpResponse:
    """Any address below /v1 that nobody serves."""
    return (_shape_for(request) or OPENAI).plain(404, ABSENT, "")


@csrf_exempt
async def app_not_found(request: HttpRequest, _rest: str = "") -> HttpResponse:
    """Any address below /api/app that nobody serves."""
    return APP.plain(404, "there is no such address", "")


@csrf_exempt
async def without_v1(request: HttpRequest, **_parts: str) -> HttpResponseBase:
    """The same route without its /v1, as llama-server has it for some."""
    match = resolve(f"/v1{request.path_info}")
    response: HttpResponseBase = await match.func(request, **match.kwargs)
    return response


def vertex_urls(routes: Sequence[str]) -> list[URLPattern]:
    """What to mount for Vertex AI, whose addresses of predictions and health are `routes`; nothing
    where there are none."""
    if not routes:
        return []
    predict, asked_health = (route.removeprefix("/") for route in routes)
    return [path(predict, _predict_view()), path(asked_health, health)]


@functools.cache
def _predict_view() -> Any:
    patterns, _, _ = family_urls(vertex_api)
    return next(p.callback for p in patterns if getattr(p, "name", None) == URL_NAME)


@csrf_exempt
async def ollama_not_found(request: HttpRequest, _rest: str = "") -> HttpResponse:
    """Any other address below /api that nobody serves."""
    return OLLAMA.plain(404, "there is no such address", "")


def _shape_for(request: HttpRequest) -> Shape | None:
    if is_app(request):
        return APP
    path = request.path_info
    found = (shape for prefix, shape in SHAPES if path.startswith(prefix))
    return next(found, OPENAI) if is_api(request) else None


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400: an unknown host name, for one."""
    shape = _shape_for(request)
    if shape is not None:
        return shape.plain(400, "bad request", "")
    return defaults.bad_request(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler404: an address with a line feed in it, for one, which is no route's."""
    shape = _shape_for(request)
    if shape is not None:
        return shape.plain(404, ABSENT, "")
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500: what fails outside the routes, in middleware."""
    shape = _shape_for(request)
    if shape is not None:
        return internal_error(shape, request)
    return defaults.server_error(request)


def key_family(namespace: str, shape: Shape, *routers: str | Router) -> NinjaAPI:
    """An API for programs: keys, JSON, and errors in `shape`."""
    api = NinjaAPI(
        title="llamaweb",
        version="1",
        urls_namespace=namespace,
        auth=ApiKeyAuth(),
        parser=OrjsonParser(),
        renderer=OrjsonRenderer(),
        docs_url=None,  # its page loads scripts from elsewhere
    )
    return _with(api, shape, routers)


def app_family(namespace: str, *routers: str | Router) -> NinjaAPI:
    """An API for the browser app: sessions, and errors in the shape of `ErrorBody`."""
    api = NinjaAPI(
        title="llamaweb: the browser app's API",
        version="1",
        urls_namespace=namespace,
        auth=SessionAuth(),
        parser=OrjsonParser(),
        renderer=OrjsonRenderer(),
        docs_url=None,
        openapi_url=None,  # `manage.py app_schema` prints it
    )
    return _with(api, APP, routers)


def _with(api: NinjaAPI, shape: Shape, routers: Sequence[str | Router]) -> NinjaAPI:
    add_handlers(api, shape)
    for router in routers:
        api.add_router("", router)
    return api


def _in_shape(view: Any, shape: Shape) -> Any:
    """`view`, whose refusal of a method is JSON like all others."""

    @csrf_exempt
    @functools.wraps(view)
    async def call(request: HttpRequest, **parts: Any) -> HttpResponseBase:
        response: HttpResponseBase = await view(request, **parts)
        if not isinstance(response, HttpResponseNotAllowed):
            return response
        refusal = shape.plain(405, f"use {response['Allow']}", "")
        refusal["Allow"] = response["Allow"]
        return refusal

    return call


def family_urls(
    api: NinjaAPI, shape: Shape = OPENAI
) -> tuple[Sequence[URLPattern | URLResolver], str, str]:
    """What to mount for `api`."""
    found, app_name, namespace = api.urls
    patterns = [each for each in found if getattr(each, "name", None) != "api-root"]
    for pattern in patterns:
        if isinstance(pattern, URLPattern) and iscoroutinefunction(pattern.callback):
            pattern.callback = _in_shape(pattern.callback, shape)
    return patterns, app_name, namespace


openai_api = key_family(
    "openai",
    OPENAI,
    "inference.edge.openai.routes.router",
    "inference.edge.responses.routes.router",
    "inference.edge.embeddings.routes.router",
    "inference.edge.resumable.routes.router",
    "inference.edge.models.routes.router",
    "inference.edge.models.lora.router",
    "inference.edge.native.v1_routes.router",
)
anthropic_api = key_family("anthropic", ANTHROPIC, "inference.edge.anthropic.routes.router")
ollama_api = key_family(
    "ollama",
    OLLAMA,
    "inference.edge.ollama.routes.router",
    "inference.edge.ollama.model_routes.router",
)
native_api = key_family(
    "native",
    OPENAI,
    "inference.edge.native.routes.router",
    "inference.edge.embeddings.native_routes.router",
)
vertex_api = key_family("vertex", OPENAI, "inference.edge.vertex.routes.router")
app_api = app_family(
    "app",
    "conversations.edge.me.router",
    "llamaweb.accounts.edge.routes.router",
    "conversations.edge.routes.router",
    "conversations.edge.live.sse.router",
)
