"""Only pages of our own origin get in: scheme, host and port."""

from __future__ import annotations

from typing import Any

import pytest

from conversations.edge.live.origin import is_own_page, origin_of
from tests.live.clients import Sockets


@pytest.fixture
def public(settings: Any) -> None:
    settings.PUBLIC_URL = "https://chat.example"
    settings.ALLOWED_HOSTS = ["localhost", "chat.example", "[::1]"]


OWN = [
    ("http://localhost:8000", "localhost:8000", "ws"),
    ("http://localhost", "localhost", "ws"),
    ("http://localhost:80", "localhost", "ws"),
    ("https://chat.example", "chat.example", "ws"),  # the proxy ends TLS
    ("https://chat.example:443", "chat.example", "wss"),
    ("http://[::1]:8000", "[::1]:8000", "ws"),
    ("http://LOCALHOST:8000", "localhost:8000", "ws"),
]
FOREIGN = [
    ("http://localhost:9999", "localhost:8000", "ws"),
    ("http://localhost", "localhost:8000", "ws"),
    ("https://localhost:8000", "localhost:8000", "ws"),
    ("http://localhost:8000", "localhost:8000", "wss"),
    ("http://chat.example", "chat.example", "wss"),
    ("http://evil.example", "localhost:8000", "ws"),
    ("http://evil.example", "evil.example", "ws"),  # a name that was made to point at us
    ("http://localhost:8000.evil.example", "localhost:8000", "ws"),
    ("http://localhost:8000@evil.example", "localhost:8000", "ws"),
    ("http://sub.localhost:8000", "localhost:8000", "ws"),
    ("null", "localhost:8000", "ws"),
    ("", "localhost:8000", "ws"),
    ("file://", "localhost:8000", "ws"),
    ("http://localhost:99999", "localhost:8000", "ws"),
    ("http://[::1", "localhost:8000", "ws"),
    ("http://" + "a" * 600, "localhost:8000", "ws"),
]


def asked(origin: str | None, host: str, scheme: str) -> bool:
    headers = [(b"host", host.encode())]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    scope = {"type": "websocket", "scheme": scheme, "headers": headers}
    return is_own_page(scope, is_needed=True)


@pytest.mark.parametrize(("origin", "host", "scheme"), OWN)
def test_own_pages(public: None, origin: str, host: str, scheme: str) -> None:
    assert asked(origin, host, scheme)


@pytest.mark.parametrize(("origin", "host", "scheme"), FOREIGN)
def test_foreign_pages(public: None, origin: str, host: str, scheme: str) -> None:
    assert not asked(origin, host, scheme)


def test_no_origin_is_foreign_only_where_browsers_send_it(public: None) -> None:
    assert not asked(None, "localhost:8000", "ws")
    scope = {"type": "http", "scheme": "http", "headers": [(b"host", b"localhost:8000")]}
    assert is_own_page(scope, is_needed=False)


def test_an_address_is_no_origin() -> None:
    assert origin_of("http://localhost/path") is None
    assert origin_of("ftp://localhost") is None


@pytest.mark.django_db(transaction=True)
async def test_a_foreign_page_is_refused_before_the_handshake(sockets: Sockets, alice: Any) -> None:
    socket = await sockets.connect(alice, origin="http://testserver:9999")
    assert socket.code == 4403
    assert socket.frames == []
    assert (await sockets.connect(alice)).code is None  # the same, from our own page
