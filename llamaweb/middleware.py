"""Middleware of our own; async-native, because a sync one costs every request a thread hop."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol
from urllib.parse import urlsplit

import redis.exceptions
import structlog
from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.exception import response_for_exception
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from llamaweb import env_kinds as kinds
from llamaweb.accounts.limits.bounds import ALLOWANCE_META, HEADERS, Allowance
from llamaweb.lib.errors import BusyError, UnavailableError
from llamaweb.lib.ids import new_id

REQUEST_ID_HEADER = "X-Request-Id"
# Where the official clients of an API look for it, by the beginning of its addresses.
CLIENTS_ID_HEADERS = (("/v1/messages", "Request-Id"),)
CORS_METHODS = "GET, POST, DELETE, OPTIONS"
# "*" doesn't cover Authorization, and nothing in older browsers. The official clients send a dozen
# headers of their own.
CORS_HEADERS = (
    "Authorization, Content-Type, X-Api-Key, Anthropic-Version, Anthropic-Beta, "
    "X-Conversation-Id, Last-Event-ID, *"
)
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
CORS_MAX_AGE_S = 600
EXPOSED_HEADERS = ", ".join((REQUEST_ID_HEADER, "Retry-After", *HEADERS))


class _Handler(Protocol):
    def __call__(
        self, request: HttpRequest, /
    ) -> HttpResponseBase | Awaitable[HttpResponseBase]: ...


class _Middleware:
    """Calls `before`, the rest of the chain, then `after`, in the caller's own colour."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: _Handler) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """A response ends the request here."""
        return None

    def after(self, request: HttpRequest, response: HttpResponseBase) -> None:
        """Change the response on its way out."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Answer the request; awaitable in an async chain."""
        if self.is_async:
            return self._acall(request)
        response = self.before(request) or self.get_response(request)
        assert isinstance(response, HttpResponseBase)
        self.after(request, response)
        return response

    async def _acall(self, request: HttpRequest) -> HttpResponseBase:
        response = self.before(request)
        if response is None:
            answer = self.get_response(request)
            assert not isinstance(answer, HttpResponseBase)
            response = await answer
        self.after(request, response)
        return response


class RequestContext(_Middleware):
    """Gives every request an id that logs and the answer carry; the client can't choose it."""

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Start a fresh log context; 400 for a host name that isn't ours."""
        request_id = new_id("req_")
        request.META["llamaweb.request_id"] = request_id
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            request.get_host()
        except DisallowedHost as error:  # answered here, so that this answer has an id, too
            return response_for_exception(request, error)
        return None

    def after(self, request: HttpRequest, response: HttpResponseBase) -> None:
        """Name the id, and what the caller has left; no browser may take an answer for something
        else than it says it is."""
        request_id = request.META["llamaweb.request_id"]
        response[REQUEST_ID_HEADER] = request_id
        for prefix, name in CLIENTS_ID_HEADERS:
            if request.path_info.startswith(prefix):
                response[name] = request_id
        response["X-Content-Type-Options"] = "nosniff"
        allowance: Allowance | None = request.META.get(ALLOWANCE_META)
        if allowance is not None:
            for name, value in allowance.headers().items():
                response[name] = value

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """A page whose throttle says no, or whose throttle can't be asked: ours or the library's,
        which counts in the cache."""
        if isinstance(error, redis.exceptions.ConnectionError | redis.exceptions.TimeoutError):
            error = UnavailableError("the server's Redis can't be reached; try again")
        if not isinstance(error, BusyError | UnavailableError):
            return None
        status = 429 if isinstance(error, BusyError) else 503
        wait_s = error.retry_after_whole_s if isinstance(error, BusyError) else 1
        response = HttpResponse(
            error.message, status=status, content_type="text/plain; charset=utf-8"
        )
        response["Retry-After"] = str(wait_s)
        return response


class Cors(_Middleware):
    """Cross-origin access for the origins of LLAMAWEB_CORS_ORIGINS, without cookies; `localhost`
    among them means every origin of the reader's own machine."""

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Answer a preflight; needs no key, as browsers send none with it."""
        asked = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
        if not asked or not self._is_allowed(request):
            return None
        response = HttpResponse(status=204)
        response["Access-Control-Allow-Methods"] = CORS_METHODS
        response["Access-Control-Allow-Headers"] = CORS_HEADERS
        response["Access-Control-Max-Age"] = str(CORS_MAX_AGE_S)
        return response

    def after(self, request: HttpRequest, response: HttpResponseBase) -> None:
        """Name the origin that asked, if it may read the answer."""
        if settings.CORS_ORIGINS:
            response["Vary"] = ", ".join(filter(None, [response.get("Vary", ""), "Origin"]))
        if self._is_allowed(request):
            response["Access-Control-Allow-Origin"] = request.headers["Origin"]
            response["Access-Control-Expose-Headers"] = EXPOSED_HEADERS

    def _is_allowed(self, request: HttpRequest) -> bool:
        origin = request.headers.get("Origin", "")
        if not origin or not settings.CORS_ORIGINS:
            return False
        if origin in settings.CORS_ORIGINS:
            return True
        return kinds.LOCALHOST in settings.CORS_ORIGINS and _is_local(origin)


def _is_local(origin: str) -> bool:
    """Whether a page of this machine asks, of whatever scheme and port."""
    try:
        return urlsplit(origin).hostname in LOCAL_HOSTS
    except ValueError:
        return False
