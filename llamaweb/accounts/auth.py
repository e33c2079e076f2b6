"""Authentication shared by the API edges: one key, in either of two headers, or a session.

`Authorization: Bearer KEY` decides when it isn't empty, else `x-api-key: KEY`. Every route takes
both; the answer to a wrong key has the shape of the API that was called. Without any key the
session of the browser counts.
"""

from __future__ import annotations

import re

from django.conf import settings
from django.http import HttpRequest
from ninja.security.base import AuthBase

from llamaweb.accounts.caller import Caller, caller_from_key
from llamaweb.accounts.database import in_database
from llamaweb.accounts.limits.bounds import (
    ALLOWANCE_META,
    Allowance,
    Bounds,
    allowance_here,
    bounds_now,
)
from llamaweb.accounts.limits.counters import Subject, take_request
from llamaweb.accounts.models import Scope
from llamaweb.accounts.selectors import INVALID_KEY, api_key_authenticate
from llamaweb.accounts.session_caller import has_session_cookie, session_caller
from llamaweb.accounts.throttle import failed_keys, network
from llamaweb.lib.errors import AuthenticationError, ForbiddenError

MAX_HEADER_LEN = 512
_SCHEME_RE = re.compile(r"^bearer(\s+|$)", re.IGNORECASE)


def presented_key(request: HttpRequest) -> str:
    """The key of a request, "" if it has none; the scheme's case and spaces around don't matter."""
    authorization = request.headers.get("Authorization", "").strip()
    if authorization:
        return _SCHEME_RE.sub("", authorization, count=1)[:MAX_HEADER_LEN].strip()
    return request.headers.get("X-Api-Key", "")[:MAX_HEADER_LEN].strip()


async def authenticate(request: HttpRequest, *scopes: Scope) -> Caller:
    """The caller of `request`, whose key has one of `scopes`; an admin key may do everything.

    Raises:
        AuthenticationError: no key nor a session, or a worthless one.
        ForbiddenError: the key lacks the scope, or a session the proof of its page.
        BusyError: too many wrong keys, or requests without one, from this address, or too many
            requests with this key, or of a session's user.
    """
    raw = presented_key(request)
    address = request.META.get("REMOTE_ADDR", "")
    allowance = request.META[ALLOWANCE_META] = Allowance()
    allowance_here.set(allowance)
    if raw:
        caller = await in_database(_authenticate)(raw, address, allowance)
    elif has_session_cookie(request):
        caller = await in_database(_authenticate_session)(request, allowance)
    else:
        if settings.ADDRESS_RATE:
            await in_database(_count_keyless)(address, allowance)
        raise AuthenticationError(INVALID_KEY)
    if not caller.scopes & {Scope.ADMIN.value, *(scope.value for scope in scopes)}:
        what = "a session" if caller.key_id is None else "this API key"
        raise ForbiddenError(f"{what} lacks the scope {scopes[0].value!r}")
    return caller


def _authenticate(raw: str, address: str, allowance: Allowance) -> Caller:
    """All that blocks, in one go, so that a request costs one hop into a thread.

    A right key is never refused for the wrong ones of its neighbours: who shares their address
    (a company's, a proxy's) could lock them out.
    """
    try:
        key = api_key_authenticate(raw)
    except AuthenticationError:
        failed_keys().take(network(address))
        raise
    caller = caller_from_key(key)
    _count(caller, allowance, "too many requests with this API key")
    return caller


def _authenticate_session(request: HttpRequest, allowance: Allowance) -> Caller:
    """As `_authenticate`."""
    caller = session_caller(request)
    _count(caller, allowance, "too many requests of this user")
    return caller


def _count(caller: Caller, allowance: Allowance, message: str) -> None:
    bounds = bounds_now()
    if bounds.rate or bounds.has_tokens:
        subject = Subject(caller.user_id, caller.key_id or 0)
        take_request(subject, bounds, allowance, message)


def _count_keyless(address: str, allowance: Allowance) -> None:
    bounds = Bounds(rate=settings.ADDRESS_RATE, burst=settings.ADDRESS_RATE)
    message = "too many requests without an API key from this address"
    take_request(Subject(network=network(address) or "-"), bounds, allowance, message)


class ApiKeyAuth(AuthBase):
    """ninja's `auth=`: sets `request.auth` to a `Caller` whose key has one of `scopes`."""

    openapi_type = "http"
    openapi_scheme = "bearer"

    def __init__(self, *scopes: Scope) -> None:
        super().__init__()
        self.scopes = scopes or (Scope.INFERENCE,)
        self.is_async = True

    async def __call__(self, request: HttpRequest) -> Caller:
        """See `authenticate`."""
        return await authenticate(request, *self.scopes)
