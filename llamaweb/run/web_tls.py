"""TLS of the web server itself, for installations without a proxy.

Certificate and key are read again when their files change; connections that are open keep what they
began with.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import structlog
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.internet.protocol import connectionDone
from twisted.protocols.tls import BufferingTLSTransport, TLSMemoryBIOFactory
from zope.interface import implementer  # type: ignore[import-untyped]

LOOK_S: Final = 1.0  # between two looks at the files, however many connect
GOODBYE_S = 3.0  # for a client's own goodbye, or for its greeting where it is turned away
SESSIONS: Final = b"llamaweb"  # OpenSSL resumes none of a checked client's without a name for them

log = structlog.get_logger("llamaweb.web")


class ClosingTransport(BufferingTLSTransport):
    """Twisted waits for the client's goodbye without end. This one waits GOODBYE_S, then closes the
    connection below, which still hands over what was written."""

    transport: Any
    _deadline: Any = None

    def loseConnection(self) -> None:
        """Close as soon as all is written."""
        super().loseConnection()
        if self.connected and self._deadline is None:
            from twisted.internet import reactor

            clock: Any = reactor
            self._deadline = clock.callLater(GOODBYE_S, self.transport.loseConnection)

    def connectionLost(self, reason: Any = connectionDone) -> None:
        """Called by the transport."""
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        super().connectionLost(reason)


class EncryptingFactory(TLSMemoryBIOFactory):
    """Wraps TLS around each connection."""

    protocol = ClosingTransport


_encrypting: Any = EncryptingFactory  # its interfaces mean nothing to a type checker


@implementer(IOpenSSLServerConnectionCreator)
class Certificates:
    """What a new connection is greeted with: twisted asks `serverConnectionForTLS` for each.

    With `client_ca` nobody gets in without a certificate that it signed. Files that can't be used,
    or not yet, leave what was there; at the start they raise `SSL.Error` or OSError.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._stamp = self._stamps()
        self._context = self._load()
        self._looked_ts = time.monotonic()

    def serverConnectionForTLS(self, _protocol: Any) -> SSL.Connection:
        """A connection under the files as they are."""
        if time.monotonic() - self._looked_ts >= LOOK_S:
            self._looked_ts = time.monotonic()
            self._look()
        return SSL.Connection(self._context, None)

    def _look(self) -> None:
        try:
            stamp = self._stamps()
            if stamp == self._stamp:
                return
            self._context = self._load()
        except (OSError, SSL.Error) as error:
            log.warning("certificate_not_read", reason=str(error) or type(error).__name__)
            return
        self._stamp = stamp
        log.info("certificate_read")

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        files = (self._certificate, self._key, self._client_ca)
        found = [file.stat() for file in files if file is not None]
        return tuple((each.st_mtime_ns, each.st_ino, each.st_size) for each in found)

    def _load(self) -> SSL.Context:
        context = SSL.Context(SSL.TLS_SERVER_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        context.use_certificate_chain_file(str(self._certificate))
        context.use_privatekey_file(str(self._key))
        context.check_privatekey()
        if self._client_ca is not None:
            context.load_verify_locations(str(self._client_ca))
            needed = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT
            context.set_verify(needed, lambda _connection, _cert, _error, _depth, good: bool(good))
            context.set_session_id(SESSIONS)
        return context


class TlsEndpoint:
    """An endpoint whose connections are encrypted; `listen` as any endpoint's."""

    def __init__(self, endpoint: Any, certificates: Certificates) -> None:
        self._endpoint = endpoint
        self._certificates = certificates

    def listen(self, factory: Any) -> Any:
        """See the class."""
        return self._endpoint.listen(_encrypting(self._certificates, False, factory))
