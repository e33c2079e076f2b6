"""Who is really calling: X-Forwarded-* are believed only from LLAMAWEB_TRUSTED_PROXIES.

Sits outside everything else, for HTTP and WebSocket alike. Behind it, `scope["client"]` and
`scope["scheme"]` are true and the headers are gone, so nobody can believe them by mistake.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from llamaweb.env_kinds import Network

Scope: TypeAlias = dict[str, Any]
Application: TypeAlias = Callable[[Scope, Any, Any], Awaitable[None]]

_HEADERS = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-port")
_SECURE = {"http": "https", "websocket": "wss"}


class TrustedProxies:
    """ASGI application around another one."""

    def __init__(self, application: Application, proxies: Sequence[Network]) -> None:
        self.application = application
        self.proxies = proxies

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Pass the request on with its true origin."""
        if scope["type"] in _SECURE:
            scope = self._resolved(scope)
        await self.application(scope, receive, send)

    def _resolved(self, scope: Scope) -> Scope:
        forwarded = {name: value for name, value in scope["headers"] if name in _HEADERS}
        headers = [(name, value) for name, value in scope["headers"] if name not in _HEADERS]
        chain = b",".join(
            value for name, value in scope["headers"] if name == b"x-forwarded-for"
        ).decode("latin-1")
        scope = {**scope, "headers": headers}
        if scope.get("client"):
            scope["client"] = [_plain(scope["client"][0]), scope["client"][1]]
        peer = (scope.get("client") or ["", 0])[0]
        if not self._is_proxy(peer):
            return scope
        scope["client"] = [self._client(peer, chain), 0]
        protocol = forwarded.get(b"x-forwarded-proto", b"").split(b",")[-1].strip().lower()
        if protocol in (b"https", b"wss"):
            scope["scheme"] = _SECURE[scope["type"]]
        return scope

    def _client(self, peer: str, chain: str) -> str:
        """The nearest address that isn't a proxy of ours: everything left of it can be made up."""
        for part in reversed(chain.split(",")):
            address = _plain(part.strip())
            if not _is_address(address):
                break
            peer = address
            if not self._is_proxy(address):
                break
        return peer

    def _is_proxy(self, address: str) -> bool:
        if not _is_address(address):
            return False
        parsed = ipaddress.ip_address(address)
        return any(parsed in network for network in self.proxies)


def _plain(address: str) -> str:
    """An IPv4 address as itself: a socket of both kinds says ::ffff:10.0.0.1, and throttles that
    count by IPv6 network would take all of IPv4 for one caller."""
    if not _is_address(address):
        return address
    parsed = ipaddress.ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return address if mapped is None else str(mapped)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
