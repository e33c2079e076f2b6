"""Fetching from addresses that somebody names: only public or exempted ones, within bounds."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from llamaweb.lib import checked_transport, outbound
from llamaweb.lib.addresses import Allow, is_public
from llamaweb.lib.errors import InvalidError
from llamaweb.lib.outbound import RefusedAddressError, UnreachableError, check_url, fetch
from tests.registry.source import Source

HERE = Allow.of([ipaddress.ip_network("127.0.0.1")])


@pytest.fixture
def source() -> Iterator[Source]:
    with Source(body=b"hello") as made:
        yield made


def get(url: str, allow: Allow = HERE, *, total_s: float = 20.0, max_bytes: int = 10**6) -> bytes:
    with fetch(url, allow=allow, total_s=total_s) as response:
        assert response.status == 200
        return b"".join(response.chunks(max_bytes=max_bytes))


def resolve_to(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Each look-up gives the next of `answers`; returns the names that were asked for."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, *args: Any, **kwargs: Any) -> list[Any]:
        if host[0].isdigit():
            return real(host, port, *args, **kwargs)
        found = answers[min(len(asked), len(answers) - 1)]
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (name, port)) for name in found]

    monkeypatch.setattr(checked_transport.socket, "getaddrinfo", getaddrinfo)
    return asked


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.9.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1",
        "169.254.169.254", "100.64.0.1", "192.0.0.8", "198.18.0.1", "224.0.0.1", "240.0.0.1",
        "255.255.255.255", "::", "::1", "fe80::1", "fc00::1", "fec0::1", "ff02::1", "2001:db8::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:1::1",
        "64:ff9b:1::1", "3fff::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_public_addresses(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_exemptions() -> None:
    allow = Allow.of(["Mirror.Example.org", ipaddress.ip_network("10.0.0.0/8")])
    inside, outside = ipaddress.ip_address("10.1.1.1"), ipaddress.ip_address("192.168.0.1")
    assert allow.permits("whatever", inside)
    assert not allow.permits("whatever", outside)
    assert allow.permits("mirror.example.ORG.", outside)
    assert not allow.permits("evil-mirror.example.org", outside)
    assert not allow.permits("sub.mirror.example.org", outside)


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "//host/x", "ftp://host/x", "file:///etc/passwd", "http://", "http:///x",
        "http://u@host/", "http://u:p@host/", "http://ho st/", "http://host/\n", "http://host\\@x/",
        "javascript:alert(1)", "http://[::1", "http://host:99999/", "http://" + "x" * 3000,
    ],
)  # fmt: skip
def test_what_is_no_address_to_fetch(url: str) -> None:
    with pytest.raises(InvalidError):
        check_url(url)


def test_a_body(source: Source) -> None:
    assert get(source.url) == b"hello"
    assert source.asked[0]["accept-encoding"] == "identity"
    assert "cookie" not in source.asked[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433"])
def test_this_machine_is_refused(source: Source, host: str) -> None:
    with pytest.raises((RefusedAddressError, UnreachableError)):
        get(f"http://{host}:{source.port}/", Allow())
    assert source.asked == []


def test_the_environments_proxy_is_not_asked(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", source.url)
    monkeypatch.setenv("ALL_PROXY", source.url)
    with pytest.raises(RefusedAddressError):
        get("http://10.0.0.1/", Allow())
    assert source.asked == []


def test_one_private_address_refuses_a_name(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, ["1.1.1.1", "127.0.0.1"])
    with pytest.raises(RefusedAddressError, match="LLAMAWEB_OUTBOUND_ALLOW"):
        get("http://mirror.example/", Allow())


def test_the_checked_address_is_the_one_connected_to(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that says something else the next time is asked once a connection only."""
    asked = resolve_to(monkeypatch, ["127.0.0.1"], ["203.0.113.9"])
    assert get(f"http://mirror.example:{source.port}/x") == b"hello"
    assert asked.count("mirror.example") == 1
    assert source.asked[0]["host"] == f"mirror.example:{source.port}"


def test_every_redirect_is_checked(source: Source) -> None:
    source.status, source.headers = 302, {"Location": "http://169.254.169.254/latest/meta-data"}
    with pytest.raises(RefusedAddressError):
        get(source.url)


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://x/", "", "http://"])
def test_redirects_to_no_address(source: Source, location: str) -> None:
    source.status, source.headers = 301, {"Location": location}
    with pytest.raises(InvalidError):
        get(source.url)


def test_redirects_end(source: Source) -> None:
    source.status, source.headers = 307, {"Location": "/again"}
    with pytest.raises(InvalidError, match="more than 5 times"):
        get(source.url)
    assert len(source.asked) == outbound.MAX_REDIRECTS + 1


def test_a_redirect_at_home_is_followed(source: Source) -> None:
    source.statuses, source.headers = [302], {"Location": "/there"}
    assert get(source.url) == b"hello"


def test_too_large_a_body(source: Source) -> None:
    source.endless = True
    with pytest.raises(InvalidError, match="more than 1,000 bytes"):
        get(source.url, max_bytes=1000)


def test_a_body_that_breaks_off(source: Source) -> None:
    source.cut_at = 2
    with pytest.raises(UnreachableError):
        get(source.url)


def test_a_server_that_says_nothing_for_too_long(source: Source) -> None:
    source.hold_at = 2
    with pytest.raises(UnreachableError):
        get(source.url, total_s=0.5)


def test_nobody_there() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(UnreachableError):
        get(f"http://127.0.0.1:{port}/")
    with pytest.raises(UnreachableError):
        get("http://name.invalid/")
