"""Django's middleware for pages: sessions, forms, languages. API requests go past it.

Each of these costs an async request two or more hops into a thread; together they cost more
CPU than answering. An API request carries a key and no cookie, so it needs none of them. The
browser app's own requests carry the session and are no pages: they need half of them.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from allauth.usersessions.internal.usersessionkit import track_activity
from asgiref.sync import sync_to_async
from csp.middleware import CSPMiddleware
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.locale import LocaleMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.deprecation import MiddlewareMixin

from llamaweb.lib.session_key import is_session_key

# Fetched by pages, not looked at by people.
NOT_PAGES = ("/api/", "/static/", "/admin/jsi18n/")
APP_PREFIX = "/api/app/"
API_PREFIXES = (
    *("/v1/", "/api/", "/chat/", "/models", "/health", "/metrics", "/completion", "/infill"),
    *("/tokenize", "/detokenize", "/apply-template", "/props", "/slots", "/lora-adapters"),
    *("/embedding", "/rerank", "/responses", "/audio/"),
)


def is_api(request: HttpRequest) -> bool:
    """Whether a program is asking, not a person's browser."""
    path = request.path_info
    is_theirs = path.startswith(API_PREFIXES) or path in settings.VERTEX_ROUTES
    return is_theirs and not is_app(request)


def is_app(request: HttpRequest) -> bool:
    """Whether the browser app is asking, which shows no page of Django's."""
    return request.path_info.startswith(APP_PREFIX)


class _PagesAndApp:
    """Stands before a middleware class; hands API requests straight on."""

    get_response: Any

    def is_past(self, request: HttpRequest) -> bool:
        """Whether `request` needs nothing of the class."""
        return is_api(request)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        is_past = self.is_past(request)
        forward = self.get_response if is_past else super().__call__  # type: ignore[misc]
        answer: HttpResponseBase | Awaitable[HttpResponseBase] = forward(request)
        return answer


class _PagesOnly(_PagesAndApp):
    """The browser app's requests go past it, too."""

    def is_past(self, request: HttpRequest) -> bool:
        """See `_PagesAndApp`."""
        return is_api(request) or is_app(request)


class Security(_PagesAndApp, SecurityMiddleware):
    """Headers that browsers obey."""


class Common(_PagesOnly, CommonMiddleware):
    """Content-Length and the host's name; API requests: `RequestContext`."""


class Session(_PagesAndApp, SessionMiddleware):
    """Sessions; a cookie that can't be one's is none."""

    def process_request(self, request: HttpRequest) -> None:
        """See the class."""
        key = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
        request.session = self.SessionStore(key if is_session_key(key) else None)


class Locale(_PagesAndApp, LocaleMiddleware):
    """The reader's language."""


class Csrf(_PagesAndApp, CsrfViewMiddleware):
    """Forms from our own pages only; the app's requests are checked by its authentication."""

    async def process_view(  # type: ignore[override]  # Django adapts either colour
        self, request: HttpRequest, callback: Any, args: Any, kwargs: Any
    ) -> Any:
        """As the class's own, without a thread hop for API requests and views that check it
        themselves."""
        if is_api(request) or getattr(callback, "csrf_exempt", False):
            return None
        return await sync_to_async(super().process_view)(request, callback, args, kwargs)


class Authentication(_PagesAndApp, AuthenticationMiddleware):
    """`request.user`."""


class UserSessions(_PagesOnly, MiddlewareMixin):
    """Notes on a page view that the session was used; the app's own calls go past it."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Without a thread hop for what isn't a page."""
        if request.method == "GET" and not request.path_info.startswith(NOT_PAGES):
            return super().__call__(request)
        answer: HttpResponseBase | Awaitable[HttpResponseBase] = self.get_response(request)
        return answer

    def process_request(self, request: HttpRequest) -> None:
        """One write a page; signed-out people have no session to note."""
        track_activity(request, user=request.user, session=request.session)


class Messages(_PagesOnly, MessageMiddleware):
    """Notes for the next page."""


class FrameOptions(_PagesOnly, XFrameOptionsMiddleware):
    """No framing."""


class Csp(_PagesOnly, CSPMiddleware):
    """What a page may load."""
