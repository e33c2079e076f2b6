"""The web server's own TLS: certificates that are made here, read again when they change."""

from __future__ import annotations

import datetime as dt
import http.client
import ipaddress
import json
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.llamaweb.test_web_server import DEADLINE_S, Toy, toy
from tests.stack import wait_for

UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Pair:
    """A self-signed certificate for 127.0.0.1 and its key, in `folder`."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(exist_ok=True)
        self.name = name
        self.certificate, self.key = folder / "certificate.pem", folder / "key.pem"
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        alternative = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(alternative, critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        plain = serialization.NoEncryption()
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        self.certificate.write_bytes(made.public_bytes(pem))
        self.key.write_bytes(key.private_bytes(pem, form, plain))

    def context(self, client: Pair | None = None) -> ssl.SSLContext:
        """A client's, that trusts this one and has `client`'s certificate."""
        made = ssl.create_default_context(cafile=str(self.certificate))
        if client is not None:
            made.load_cert_chain(client.certificate, client.key)
        return made

    def moved_over(self, other: Pair) -> None:
        """Take the place of `other`, as whoever renews a certificate does it."""
        self.key.replace(other.key)
        self.certificate.replace(other.certificate)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path / "served", "first")


@pytest.fixture
def server(pair: Pair) -> Iterator[Toy]:
    with toy(f"certificate={pair.certificate}", f"key={pair.key}", "BODY_S=1", "LINGER_S=1") as it:
        yield it


def get(server: Toy, path: str, context: ssl.SSLContext) -> tuple[int, bytes]:
    client = http.client.HTTPSConnection(
        "127.0.0.1", server.port, timeout=DEADLINE_S, context=context
    )
    with closing(client):
        client.request("GET", path)
        response = client.getresponse()
        return response.status, response.read()


def encrypted(server: Toy, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A connection, after its greeting."""
    return context.wrap_socket(server.connect(), server_hostname="127.0.0.1")


def name_served(server: Toy) -> str:
    """Whose certificate a new connection is greeted with."""
    pem = ssl.get_server_certificate(("127.0.0.1", server.port), timeout=DEADLINE_S)
    subject = x509.load_pem_x509_certificate(pem.encode()).subject
    return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def test_requests_and_websockets_are_encrypted(server: Toy, pair: Pair) -> None:
    assert get(server, "/slow", pair.context()) == (200, b"slow")
    with encrypted(server, pair.context()) as link:
        link.sendall(UPGRADE)
        assert link.recv(4096).startswith(b"HTTP/1.1 101")
        link.sendall(b"\x81\x85" + bytes(4) + b"hello")  # text of five bytes under a mask of zeros
        assert link.recv(4096) == b"\x81\x05hello"
    assert server.line().startswith("gone with")


def test_refusals_and_streams_work_as_without(server: Toy, pair: Pair) -> None:
    client = http.client.HTTPSConnection(
        "127.0.0.1", server.port, timeout=DEADLINE_S, context=pair.context()
    )
    with closing(client):
        client.request("POST", "/length", body=b"x" * 1001)
        refused = client.getresponse()
        assert refused.status == 413
        assert json.loads(refused.read())["error"]["code"] == 413
    with encrypted(server, pair.context()) as link:
        link.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        assert link.recv(4096).startswith(b"HTTP/1.1 200")
    assert server.line() == "cancelled"


def test_a_client_that_says_no_goodbye_gives_its_place_back(pair: Pair) -> None:
    files = (f"certificate={pair.certificate}", f"key={pair.key}")
    with toy(*files, "max_connections=1", "GOODBYE_S=1") as server:
        for asked in (b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", UPGRADE):
            with encrypted(server, pair.context()) as link:
                link.sendall(asked)
                if asked is UPGRADE:
                    assert link.recv(4096).startswith(b"HTTP/1.1 101")
                    link.sendall(b"\x88\x80" + bytes(4))  # the end, under a mask of zeros
                while link.recv(4096):
                    pass
                wait_for("the place", lambda: serves(server, pair), DEADLINE_S)


def test_who_is_turned_away_is_not_waited_for(pair: Pair) -> None:
    files = (f"certificate={pair.certificate}", f"key={pair.key}")
    with (
        toy(*files, "max_connections=1", "GOODBYE_S=1") as server,
        encrypted(server, pair.context()),
        server.connect() as silent,  # says nothing, not even its greeting
    ):
        assert silent.recv(1) == b""


def serves(server: Toy, pair: Pair) -> bool:
    return get(server, "/slow", pair.context())[0] == 200


def test_who_speaks_no_tls_gets_nothing(server: Toy) -> None:
    with server.connect() as link:
        link.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"HTTP/1.1 200" not in link.recv(4096)


def test_a_renewed_certificate_is_served_without_a_restart(
    server: Toy, pair: Pair, tmp_path: Path
) -> None:
    assert name_served(server) == "first"
    pair.key.write_text("no key")
    assert name_served(server) == "first"  # what can't be used leaves what was there
    Pair(tmp_path / "next", "second").moved_over(pair)
    wait_for("the new certificate", lambda: name_served(server) == "second", DEADLINE_S)
    assert get(server, "/slow", pair.context()) == (200, b"slow")


def test_with_a_client_ca_nobody_gets_in_without_its_certificate(
    pair: Pair, tmp_path: Path
) -> None:
    known, stranger = Pair(tmp_path / "known", "known"), Pair(tmp_path / "other", "stranger")
    files = (f"certificate={pair.certificate}", f"key={pair.key}")
    with toy(*files, f"client_ca={known.certificate}") as server:
        assert get(server, "/slow", pair.context(known)) == (200, b"slow")
        for context in (pair.context(), pair.context(stranger)):
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
                get(server, "/slow", context)


def test_a_client_with_a_certificate_may_resume_its_session(pair: Pair, tmp_path: Path) -> None:
    known = Pair(tmp_path / "known", "known")
    files = (f"certificate={pair.certificate}", f"key={pair.key}")
    with toy(*files, f"client_ca={known.certificate}") as server:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = pair.context(known)
            context.maximum_version = version
            session, resumed = None, []
            for _ in range(2):
                plain = server.connect()
                with context.wrap_socket(
                    plain, server_hostname="127.0.0.1", session=session
                ) as link:
                    link.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
                    assert link.recv(4096).startswith(b"HTTP/1.1 200")
                    session, was_resumed = link.session, link.session_reused
                    resumed.append(was_resumed)
            assert resumed == [False, True]
