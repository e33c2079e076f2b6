"""Who calls an API without a key: a person's browser, by the session of its pages.

API requests go past Django's middleware for pages, so the session is looked up here, where it is
asked for. Like a key it names its user, to the same bounds; it administers nothing.
"""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from ninja.utils import check_csrf

from llamaweb.accounts.caller import Caller
from llamaweb.accounts.models import Scope, User
from llamaweb.lib.errors import AuthenticationError, ForbiddenError
from llamaweb.lib.session_key import is_session_key

SCOPES: Final = frozenset({Scope.INFERENCE.value, Scope.MODELS_READ.value})
SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS", "TRACE")
SIGNED_OUT: Final = "the session is over; sign in again, or send an API key"
NO_CSRF: Final = (
    "with a session in place of an API key, X-CSRFToken has to repeat the cookie "
    f"{settings.CSRF_COOKIE_NAME}"
)


def has_session_cookie(request: HttpRequest) -> bool:
    """Whether `request` carries what may be a session's cookie."""
    return is_session_key(request.COOKIES.get(settings.SESSION_COOKIE_NAME, ""))


def session_caller(request: HttpRequest) -> Caller:
    """The caller whose session `request` carries. Blocks.

    Raises:
        AuthenticationError: the session is over, or its user inactive.
        ForbiddenError: it changes something and doesn't prove that it comes from our own page.
        RequestDataTooBig: the body is over its bound.
        SuspiciousOperation, BadRequest, MultiPartParserError: it is a form that can't be read.
    """
    request.session = SessionStore(request.COOKIES[settings.SESSION_COOKIE_NAME])
    user = get_user(request)
    if not isinstance(user, User) or not user.is_active:
        raise AuthenticationError(SIGNED_OUT)
    # Our pages send the header; without it no form is looked at, which could be of any size.
    if request.method not in SAFE_METHODS and settings.CSRF_HEADER_NAME not in request.META:
        raise ForbiddenError(NO_CSRF)
    _ = request.body  # the check looks for a form in it, and would leave nothing of one with files
    if check_csrf(request) is not None:
        raise ForbiddenError(NO_CSRF)
    return Caller(user.pk, user.username, user.is_staff, SCOPES)
