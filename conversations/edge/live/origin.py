"""Whether a page that connects is one of ours. Browsers send cookies to every port of a host, and
SameSite doesn't look at ports either, so the page's origin must be exactly our own."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

MAX_ORIGIN_LEN = 512
_PORTS = {"http": 80, "https": 443}
_PAGE_SCHEME = {"ws": "http", "wss": "https", "http": "http", "https": "https"}

Origin = tuple[str, str, int]  # scheme, host, port


def origin_of(text: str) -> Origin | None:
    """An `Origin` header or an address, with the port it means; None: not a web origin."""
    if len(text) > MAX_ORIGIN_LEN:
        return None
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    is_bare = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username)
    if parts.scheme not in _PORTS or not host or not is_bare:
        return None
    return parts.scheme, host.lower(), port or _PORTS[parts.scheme]


def own_origins(scheme: str, host: str) -> set[Origin]:
    """PUBLIC_URL, and the address that was asked for if it is one of ours."""
    found = {origin_of(settings.PUBLIC_URL)}
    name, _ = split_domain_port(host)
    if name and validate_host(name, settings.ALLOWED_HOSTS):
        found.add(origin_of(f"{_PAGE_SCHEME[scheme]}://{host}"))
    return {origin for origin in found if origin is not None}


def is_own_page(scope: dict[str, Any], *, is_needed: bool) -> bool:
    """Whether an ASGI request comes from our own page. `is_needed`: a missing Origin is foreign;
    browsers always send it with a WebSocket, but not with their own page's GET."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    origin = headers.get(b"origin")
    if origin is None:
        return not is_needed
    scheme = scope.get("scheme") or ("ws" if scope["type"] == "websocket" else "http")
    return origin_of(origin) in own_origins(scheme, headers.get(b"host", ""))
