"""One web process: `python -m llamaweb.run.web [--fd N]`.

Without `--fd` it listens on LLAMAWEB_HOST:LLAMAWEB_PORT. With it, it accepts from a listening
socket it inherited, which any number of web processes may share. On SIGTERM it stops accepting,
tells the application (so that WebSockets close), gives what runs GRACE_S to end, cancels the rest
and exits.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

from daphne.server import Server  # isort: skip  # installs the reactor: before any of twisted

import structlog
from OpenSSL import SSL
from twisted.internet import defer, endpoints
from twisted.internet import reactor as _reactor
from twisted.logger import STDLibLogObserver, globalLogBeginner

from llamaweb.boot import EXIT_BAD_CONFIG, Boot, boot
from llamaweb.run.instance import forget_dead
from llamaweb.run.web_http import BoundedFactory, Bounds, Load
from llamaweb.run.web_socket import CodedFactory
from llamaweb.run.web_tls import Certificates, TlsEndpoint

GRACE_S = 3.0
CANCEL_S = 1.0  # with GRACE_S below the 5 s after which a process manager kills
TIMEOUT_MARGIN_S = 30  # the application's own deadline comes first
CHUNK_BYTES = 256 * 1024
MAX_SOCKET_MESSAGE_BYTES = 1024 * 1024
SERVER_NAME = "llamaweb"
QUIET_PATHS = ("/health", "/v1/health", "/metrics", "/static/")

log = structlog.get_logger("llamaweb.web")
# Their zope interfaces mean nothing to a type checker.
reactor: Any = _reactor
_adopted: Any = endpoints.AdoptedStreamServerEndpoint
_log_to: Any = globalLogBeginner.beginLoggingTo


class WebServer(Server):  # type: ignore[misc]
    """daphne's server with our bounds and a graceful end."""

    def __init__(self, application: Any, endpoint: Any, bounds: Bounds, **options: Any) -> None:
        super().__init__(application, endpoints=[endpoint], **options)
        self.bounds = bounds
        self.load = Load()
        self.connections: dict[Any, dict[str, Any]] = {}
        self.listening_port: Any = None

    def run(self) -> None:
        """Serve until a signal; SystemExit 1 when the address can't be listened on."""
        _log_to([STDLibLogObserver("twisted")], redirectStandardIO=False)
        self.http_factory = BoundedFactory(self, self.bounds, self.load)
        self.ws_factory = CodedFactory(self, server=self.server_name)
        self.ws_factory.setProtocolOptions(
            autoPingTimeout=self.ping_timeout,
            allowNullOrigin=False,
            openHandshakeTimeout=self.websocket_handshake_timeout,
            maxMessagePayloadSize=self.websocket_max_message_size,
            maxFramePayloadSize=self.websocket_max_frame_size,
        )
        asyncio.set_event_loop(reactor._asyncioEventloop)
        reactor.callLater(1, self.application_checker)
        reactor.callLater(2, self.timeout_checker)
        (endpoint,) = self.endpoints
        endpoint.listen(self.http_factory).addCallbacks(self._listening, self.listen_error)
        reactor.addSystemEventTrigger("before", "shutdown", self._shut_down)
        if not self.abort_start:
            reactor.run(installSignalHandlers=True)
        if self.abort_start:
            raise SystemExit(1)

    def listen_error(self, failure: Any) -> None:
        """Say why and end."""
        log.error("cannot_listen", reason=failure.getErrorMessage())
        self.abort_start = True
        if reactor.running:
            reactor.stop()

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        """Called by the application with each message; waits while an HTTP client is slow."""
        await super().handle_reply(protocol, message)
        if message["type"] == "http.response.body" and message.get("more_body"):
            await protocol.drain()

    def log_action(self, protocol: str, action: str, details: dict[str, Any]) -> None:
        """One line a finished request, without its query string."""
        if (protocol, action) != ("http", "complete"):
            return
        path = details["path"].partition("?")[0]
        write = log.debug if path.startswith(QUIET_PATHS) else log.info
        write(
            "request",
            method=details["method"],
            path=path,
            status=details["status"],
            ms=round(details["time_taken"] * 1000),
        )

    def _listening(self, port: Any) -> None:
        self.listening_port = port
        host = port.getHost()
        log.info("listening", address=str(getattr(host, "host", host)), pid=os.getpid())

    def _shut_down(self) -> Any:
        """What the reactor waits for before it stops."""
        if self.listening_port is not None:
            self.listening_port.stopListening()
        return defer.Deferred.fromFuture(asyncio.ensure_future(self._drain()))

    async def _drain(self) -> None:
        await self._tell_shutdown()
        running = self._running()
        if running:
            await asyncio.wait(running, timeout=GRACE_S)
        running = self._running()
        for application in running:
            application.cancel()
        if running:
            log.info("cancelled_at_shutdown", requests=len(running))
            await asyncio.wait(running, timeout=CANCEL_S)

    async def _tell_shutdown(self) -> None:
        """ASGI's lifespan, which daphne doesn't speak, as far as we need it: its end."""
        messages = iter(({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}))

        async def receive() -> dict[str, str]:
            return next(messages)

        async def send(_message: dict[str, Any]) -> None:
            return

        try:
            async with asyncio.timeout(CANCEL_S):
                await self.application({"type": "lifespan", "asgi": {}}, receive, send)
        except Exception as error:  # an application may refuse this kind of scope
            log.debug("no_lifespan", reason=type(error).__name__)

    def _running(self) -> list[asyncio.Future[Any]]:
        found = (entry.get("application_instance") for entry in self.connections.values())
        return [application for application in found if application and not application.done()]


def main(arguments: Sequence[str]) -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m llamaweb.run.web")
    parser.add_argument("--fd", type=int, help="listening socket to accept from")
    options = parser.parse_args(arguments)
    configuration = boot()
    # Read when the metrics are defined: all web processes of the instance write to one folder.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(configuration.data_dir.metrics)
    forget_dead(configuration.data_dir.metrics)
    from llamaweb.asgi import application

    env = configuration.env
    WebServer(
        application,
        _endpoint(configuration, options.fd),
        Bounds(env.max_body_bytes, env.web_max_connections),
        http_timeout=env.request_timeout_s + TIMEOUT_MARGIN_S,
        request_buffer_size=CHUNK_BYTES,
        websocket_max_message_size=MAX_SOCKET_MESSAGE_BYTES,
        websocket_max_frame_size=MAX_SOCKET_MESSAGE_BYTES,
        server_name=SERVER_NAME,
    ).run()


def _endpoint(configuration: Boot, fd: int | None) -> Any:
    """Where connections come from; encrypted where there is a certificate.

    Raises:
        SystemExit: it can't be used.
    """
    env, plain = configuration.env, _plain_endpoint(configuration, fd)
    if env.tls_certificate is None or env.tls_key is None:
        return plain
    try:
        return TlsEndpoint(plain, Certificates(env.tls_certificate, env.tls_key, env.tls_client_ca))
    except (OSError, SSL.Error) as error:
        log.error("certificate_not_read", reason=str(error) or type(error).__name__)
        raise SystemExit(EXIT_BAD_CONFIG) from error


def _plain_endpoint(configuration: Boot, fd: int | None) -> Any:
    if fd is not None:
        with socket.socket(fileno=os.dup(fd)) as inherited:
            family = inherited.family
        return _adopted(reactor, fd, family)
    env = configuration.env
    kind = endpoints.TCP6ServerEndpoint if ":" in env.host else endpoints.TCP4ServerEndpoint
    return kind(reactor, env.port, interface=env.host)


if __name__ == "__main__":
    main(sys.argv[1:])
