"""Calls whose answer is read as it comes: bounded in time, cut from outside, never redirected."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from llamaweb.lib import checked_transport
from llamaweb.lib.addresses import Allow
from llamaweb.lib.errors import DeadlineError
from llamaweb.lib.outbound import RefusedAddressError, UnreachableError
from llamaweb.lib.outbound_call import OutboundCall, RedirectedError, SilentError
from tests.registry.source import Source

HERE = Allow.of([ipaddress.ip_network("127.0.0.1")])
WAIT_S = 20.0
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegin"


@pytest.fixture
def source() -> Iterator[Source]:
    with Source(body=b"hello") as made:
        yield made


def call(url: str, **values: Any) -> OutboundCall:
    values = {"allow": HERE, "headers": {}, "idle_s": WAIT_S, "total_s": 2 * WAIT_S} | values
    return OutboundCall(url, **values)


def read(outbound: OutboundCall) -> bytes:
    with outbound.open() as answer:
        return b"".join(answer.pieces())


class Slow:
    """A server that says the beginning of an answer and then nothing; with TLS if it has a
    `context`."""

    def __init__(self, context: ssl.SSLContext | None, head: bytes = HEAD) -> None:
        self._context, self._head = context, head
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.has_begun, self.is_left = threading.Event(), threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        if self._context is not None:
            connection = self._context.wrap_socket(connection, server_side=True)
        with connection:
            connection.recv(65_536)
            connection.sendall(self._head)
            self.has_begun.set()
            connection.settimeout(WAIT_S)
            try:
                connection.recv(1)
            except TimeoutError:
                return
            except OSError:
                pass
            self.is_left.set()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """What a server at 127.0.0.1 shows; our client trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "server.pem"
    encoding = serialization.Encoding.PEM
    private = serialization.PrivateFormat.PKCS8
    path.write_bytes(
        key.private_bytes(encoding, private, serialization.NoEncryption())
        + certificate.public_bytes(encoding)
    )
    trusting = ssl.create_default_context(cafile=str(path))
    monkeypatch.setattr(checked_transport, "_ssl_context", lambda: trusting)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def test_an_answer(source: Source) -> None:
    assert read(call(source.url, headers={"Authorization": "Bearer k"})) == b"hello"
    assert source.asked[0]["authorization"] == "Bearer k"
    with call(source.url).open() as answer:
        assert answer.start(3) == b"hel"


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_cut_ends_a_silent_answer_at_once(is_encrypted: bool, request: Any) -> None:
    context = request.getfixturevalue("tls") if is_encrypted else None
    server = Slow(context)
    outbound = call(f"{'https' if context else 'http'}://127.0.0.1:{server.port}/")
    ended = threading.Event()

    def reader() -> None:
        with pytest.raises(UnreachableError):
            read(outbound)
        ended.set()

    threading.Thread(target=reader, daemon=True).start()
    assert server.has_begun.wait(WAIT_S)
    assert not ended.wait(0.05)
    outbound.cut()
    assert ended.wait(WAIT_S / 2)  # long before it would have been given up as silent
    assert server.is_left.wait(WAIT_S)
    server.close()


def test_what_was_cut_before_it_began_asks_nobody(source: Source) -> None:
    outbound = call(source.url)
    outbound.cut()
    with pytest.raises(UnreachableError):
        read(outbound)
    assert source.asked == []


@pytest.mark.parametrize(
    ("values", "error"),
    [({"idle_s": 0.2}, SilentError), ({"total_s": 0.2}, DeadlineError)],
)
@pytest.mark.parametrize("head", [b"", HEAD])
def test_silence_and_the_end_of_time(values: Any, error: type[Exception], head: bytes) -> None:
    server = Slow(None, head)
    with pytest.raises(error):
        read(call(f"http://127.0.0.1:{server.port}/", **values))
    server.close()


def test_what_is_to_come_can_be_hurried() -> None:
    server = Slow(None)
    outbound = call(f"http://127.0.0.1:{server.port}/")
    with outbound.open() as answer:
        pieces = answer.pieces()
        assert next(pieces) == b"begin"
        outbound.hurry(0.1)
        with pytest.raises(UnreachableError):
            next(pieces)
    server.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(source: Source, status: int) -> None:
    source.status = status
    source.headers = {"Location": f"http://127.0.0.1:{source.port}/elsewhere"}
    with pytest.raises(RedirectedError):
        read(call(source.url))
    assert len(source.asked) == 1


def test_an_address_that_is_not_public(source: Source) -> None:
    with pytest.raises(RefusedAddressError, match="LLAMAWEB_OUTBOUND_ALLOW"):
        read(call(source.url, allow=Allow()))
    assert source.asked == []
