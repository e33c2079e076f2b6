"""Authentication shared by the API edges: one key, in either of two headers.

`Authorization: Bearer KEY` decides when it isn't empty, else `x-api-key: KEY`. Every route takes
both; the answer to a wrong key has the shape of the API that was called.
"""

from __future__ import annotations

import re

from django.http import HttpRequest
from ninja.security.base import AuthBase

from llamaweb.accounts.caller import Caller, caller_from_key
from llamaweb.accounts.database import in_database
from llamaweb.accounts.models import Scope
from llamaweb.accounts.selectors import INVALID_KEY, api_key_authenticate
from llamaweb.accounts.throttle import failed_keys, key_requests, network
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
        AuthenticationError: no key or a worthless one.
        ForbiddenError: the key lacks the scope.
        BusyError: too many wrong keys from this address, or too many requests with this key.
    """
    raw = presented_key(request)
    if not raw:
        raise AuthenticationError(INVALID_KEY)
    address = request.META.get("REMOTE_ADDR", "")
    caller = await in_database(_authenticate)(raw, address)
    if not caller.scopes & {Scope.ADMIN.value, *(scope.value for scope in scopes)}:
        raise ForbiddenError(f"this API key lacks the scope {scopes[0].value!r}")
    return caller


def _authenticate(raw: str, address: str) -> Caller:
    """All that blocks, in one go, so that a request costs one hop into a thread.

    A right key is never refused for the wrong ones of its neighbours: who shares their address
    (a company's, a proxy's) could lock them out.
    """
    try:
        key = api_key_authenticate(raw)
    except AuthenticationError:
        failed_keys().take(network(address))
        raise
    key_requests().take(str(key.pk))
    return caller_from_key(key)


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
