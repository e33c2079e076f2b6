"""X-Forwarded-* is believed from trusted proxies only, and only their part of it."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from llamaweb.proxies import TrustedProxies

PROXIES = [ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8")]


async def seen(peer: str, *headers: tuple[bytes, bytes], kind: str = "http") -> dict[str, Any]:
    """What an application behind the proxies sees."""
    found: dict[str, Any] = {}

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        found.update(scope)

    scope = {"type": kind, "client": [peer, 1], "scheme": "http", "headers": list(headers)}
    await TrustedProxies(application, PROXIES)(scope, None, None)
    return found


@pytest.mark.parametrize(
    ("peer", "chain", "client"),
    [
        ("192.0.2.1", "198.51.100.9", "192.0.2.1"),  # not a proxy: not believed
        ("10.0.0.1", "198.51.100.9", "198.51.100.9"),
        ("10.0.0.1", "203.0.113.5, 198.51.100.9", "198.51.100.9"),  # the left part is made up
        ("10.0.0.1", "198.51.100.9, 10.0.0.2", "198.51.100.9"),  # two proxies
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("fd00::1", "2001:db8::7", "2001:db8::7"),
        ("::ffff:10.0.0.1", "198.51.100.9, ::ffff:10.0.0.2", "198.51.100.9"),
        ("10.0.0.1", "::ffff:198.51.100.9", "198.51.100.9"),
        ("::ffff:192.0.2.1", "198.51.100.9", "192.0.2.1"),
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.9, garbage", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
    ],
)
async def test_the_client(peer: str, chain: str, client: str) -> None:
    scope = await seen(peer, (b"x-forwarded-for", chain.encode()))
    assert scope["client"][0] == client


async def test_several_headers_are_one_chain() -> None:
    headers = [(b"x-forwarded-for", b"203.0.113.5"), (b"x-forwarded-for", b"198.51.100.9")]
    assert (await seen("10.0.0.1", *headers))["client"][0] == "198.51.100.9"


@pytest.mark.parametrize(
    ("peer", "kind", "scheme"),
    [
        ("10.0.0.1", "http", "https"),
        ("10.0.0.1", "websocket", "wss"),
        ("192.0.2.1", "http", "http"),
    ],
)
async def test_the_scheme(peer: str, kind: str, scheme: str) -> None:
    assert (await seen(peer, (b"x-forwarded-proto", b"https"), kind=kind))["scheme"] == scheme


async def test_nobody_behind_sees_the_headers() -> None:
    names = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-port")
    scope = await seen("192.0.2.1", (b"accept", b"*/*"), *((name, b"x") for name in names))
    assert scope["headers"] == [(b"accept", b"*/*")]


async def test_a_peer_without_an_address() -> None:
    found: list[Any] = []

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        found.append(scope["client"])

    scope = {"type": "http", "client": None, "scheme": "http", "headers": []}
    await TrustedProxies(application, PROXIES)(scope, None, None)
    assert found == [None]
