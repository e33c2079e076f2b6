"""HTTP as daphne speaks it, with bounds: body size, header and body time, open connections.

daphne hands a request over only when its body is complete, so everything that limits a body must
happen here. A refused client gets its answer first: we stop writing, then read and drop for a
moment, because closing at once would reset the connection and lose the answer.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass
from typing import Any

import orjson
import structlog
from daphne.http_protocol import HTTPFactory, WebRequest  # daphne.server must be imported first
from twisted.internet.protocol import Protocol, connectionDone
from twisted.protocols.policies import ProtocolWrapper
from twisted.web.http import HTTPChannel

from inference.edge.refusals import refusal_body
from llamaweb.lib.ids import new_id

KEEP_ALIVE_S = 75.0  # an idle connection is closed after this
HEADER_S = 15.0  # from the first byte of a request to the end of its headers
BODY_S = 120.0  # from there to the end of the body
WRITE_S = 60.0  # how long a client may take in nothing of what waits for it
LINGER_S = 3  # how long a refused client may go on sending
MAX_HEADER_BYTES = 32 * 1024
# Sent ahead while a request is being answered. Twisted stops reading at 16 KiB, and who doesn't
# read isn't told that the client has left.
MAX_WAITING_BYTES = 8 * 1024
BODIES_HELD = 16  # bodies of the largest size that are being received at once
REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
# Daphne lets every client name the application's root with it.
DROPPED_HEADERS = (b"Daphne-Root-Path",)
SUBPROTOCOL_HEADER = b"Sec-WebSocket-Protocol"  # daphne takes it for ASCII, with a 500 if it isn't

log = structlog.get_logger("llamaweb.web")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one web process. Bytes and counts."""

    max_body_bytes: int
    max_connections: int

    @property
    def max_bodies_bytes(self) -> int:
        """Of all bodies together that are held at a time."""
        return self.max_body_bytes * BODIES_HELD


class Load:
    """What the process holds now."""

    def __init__(self) -> None:
        self.connections = 0
        self.body_bytes = 0


def refusal(status: int, message: str, path: str = "", **more: Any) -> bytes:
    """A whole HTTP response with an error in the shape of the API at `path`, "" where nothing of
    the request was read; the connection ends with it.

    It is logged under its id.
    """
    request_id = _logged(status, message)
    body = orjson.dumps(refusal_body(path, status, message, request_id, **more))
    head = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nServer: llamaweb\r\nConnection: close\r\n"
        f"X-Request-Id: {request_id}\r\n"
        f"Content-Type: application/json; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


def _logged(status: int, message: str) -> str:
    request_id = new_id("req_")
    log.info("refused", status=status, reason=message, request_id=request_id)
    return request_id


class Flow:
    """Whether the client takes in what is written; the connection calls this (a push producer)."""

    def __init__(self) -> None:
        self.room = asyncio.Event()
        self.room.set()

    def pauseProducing(self) -> None:
        """Enough waits already."""
        self.room.clear()

    def resumeProducing(self) -> None:
        """All of it was taken."""
        self.room.set()

    def stopProducing(self) -> None:
        """The client is gone."""
        self.room.set()


class BoundedRequest(WebRequest):  # type: ignore[misc]
    """daphne's request; its body stays in memory, never on disk, and is counted. Its answer waits
    for the client, while daphne would keep all of it in memory."""

    held_bytes = 0
    flow: Flow | None = None

    def gotLength(self, length: int | None) -> None:
        """Called when the headers are complete."""
        self.content = io.BytesIO()

    def handleContentChunk(self, data: bytes) -> None:
        """Called for each piece of the body."""
        if self.channel.may_take(self, len(data)):
            self.content.write(data)

    def process(self) -> Any:
        """Called when the request is complete."""
        for name in DROPPED_HEADERS:
            self.requestHeaders.removeHeader(name)
        for value in self.requestHeaders.getRawHeaders(SUBPROTOCOL_HEADER, ()):
            if not value.isascii():
                self.basic_error(400, b"", "a WebSocket's protocol must be named in ASCII")
                return None
        return super().process()

    def release(self) -> None:
        """The body is no longer held."""
        self.channel_load.body_bytes -= self.held_bytes
        self.held_bytes = 0

    def handle_reply(self, message: dict[str, Any]) -> None:
        """Called with each piece of the answer."""
        if message["type"] == "http.response.start" and self.flow is None:
            self.flow = Flow()
            self.registerProducer(self.flow, True)
        super().handle_reply(message)

    async def drain(self) -> None:
        """Wait until the client has taken in what was written; WRITE_S, then it is dropped."""
        if self.flow is None:
            return
        try:
            async with asyncio.timeout(WRITE_S):
                await self.flow.room.wait()
        except TimeoutError:
            log.info("aborted", reason="the client doesn't take in its answer")
            if self.channel is not None:
                self.channel.forceAbortClient()

    def finish(self) -> None:
        """Called when the response is complete."""
        self.release()
        if self.producer is not None:
            self.unregisterProducer()
        super().finish()

    def connectionLost(self, reason: Any) -> None:
        """Called when the client is gone."""
        self.release()
        if self.flow is not None:
            self.flow.stopProducing()
        super().connectionLost(reason)

    def basic_error(self, status: int, status_text: bytes, body: str) -> None:
        """daphne's own errors, as JSON."""
        request_id = _logged(status, body)
        headers = [
            (b"Content-Type", b"application/json; charset=utf-8"),
            (b"X-Request-Id", request_id.encode("ascii")),
        ]
        start = {"type": "http.response.start", "status": status, "headers": headers}
        self.handle_reply(start)
        path = self.uri.decode("ascii", "replace")
        content = orjson.dumps(refusal_body(path, status, body, request_id))
        self.handle_reply({"type": "http.response.body", "body": content})

    @property
    def channel_load(self) -> Load:
        """The process's load; also after the channel is gone."""
        load: Load = self.server.load
        return load


class BoundedChannel(HTTPChannel):
    """One connection. `factory` carries the bounds and the load."""

    transport: Any
    factory: Any
    callLater: Any
    requestFactory = BoundedRequest
    totalHeadersSize = MAX_HEADER_BYTES
    abortTimeout = LINGER_S
    is_refused = False
    _deadline: Any = None

    def connectionMade(self) -> None:
        """Called by the transport."""
        self.factory.load.connections += 1
        super().connectionMade()
        self._arm(HEADER_S, "the request's headers took too long")

    def connectionLost(self, reason: Any = connectionDone) -> None:
        """Called by the transport, unless the connection became a WebSocket."""
        self._disarm()
        self.factory.load.connections -= 1
        super().connectionLost(reason)

    def dataReceived(self, data: bytes) -> None:
        """Called by the transport."""
        if self.is_refused:
            return
        if self._deadline is None and not self._handlingRequest:
            self._arm(HEADER_S, "the request's headers took too long")
        super().dataReceived(data)

    def lineReceived(self, line: bytes) -> None:
        """The first line, or a header."""
        if not self.is_refused:
            super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:
        """A header longer than the parser takes."""
        self.refuse(431, "a header of the request is too long")

    def _respondToBadRequestAndDisconnect(self) -> None:
        """What the parser calls for anything that isn't HTTP."""
        self.refuse(400, "the request is not valid HTTP, or has too many headers")

    def rawDataReceived(self, data: bytes) -> None:
        """Body data, or what follows a request that is still being answered."""
        if not self.is_refused:
            super().rawDataReceived(data)
            self._bound_waiting()

    def allHeadersReceived(self) -> None:
        """Refuse by the announced length, before 100-continue and before the first body byte."""
        limit = self.factory.bounds.max_body_bytes
        if self.length is not None and self.length > limit:
            self._refuse_body()
            return
        self._arm(BODY_S, "the request's body took too long")
        super().allHeadersReceived()

    def allContentReceived(self) -> None:
        """The request goes to the application."""
        self._disarm()
        if self.is_refused:
            return
        super().allContentReceived()
        self._follow_upgrade()
        self._bound_waiting()

    def may_take(self, request: BoundedRequest, size: int) -> bool:
        """Count `size` body bytes, or refuse the request; a chunked body is found out here."""
        if self.is_refused:
            return False
        if request.held_bytes + size > self.factory.bounds.max_body_bytes:
            self._refuse_body()
            return False
        if self.factory.load.body_bytes + size > self.factory.bounds.max_bodies_bytes:
            self.refuse(503, "too many request bodies at once; try again", reason="bodies")
            return False
        request.held_bytes += size
        self.factory.load.body_bytes += size
        return True

    def loseConnection(self) -> None:
        """Close when the answer is written, for which a client has as long as one that stays."""
        super().loseConnection()
        if not self.is_refused:
            self._disarm()
            self._deadline = self.callLater(KEEP_ALIVE_S, self._abort)

    def refuse(self, status: int, message: str, **more: Any) -> None:
        """Answer now, drop what still comes, close."""
        self.is_refused = True
        self._disarm()
        self.setTimeout(None)
        for request in self.requests:
            request.release()
        self.transport.write(refusal(status, message, self._asked_path(), **more))
        _end_writing(self.transport)
        self._deadline = self.callLater(LINGER_S, self._abort)

    def _refuse_body(self) -> None:
        limit = self.factory.bounds.max_body_bytes
        self.refuse(
            413,
            f"the request body is larger than {limit} bytes (LLAMAWEB_MAX_BODY_BYTES)",
            max_body_bytes=limit,
        )

    def _asked_path(self) -> str:
        """Of the request that is being read, "" before its first line."""
        path: bytes = getattr(self, "_path", b"")
        return path.decode("ascii", "replace")

    def _arm(self, seconds: float, message: str) -> None:
        self._disarm()
        self._deadline = self.callLater(seconds, self._too_slow, message)

    def _disarm(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None

    def _too_slow(self, message: str) -> None:
        self._deadline = None
        self.refuse(408, message)

    def _abort(self) -> None:
        self._deadline = None
        self.transport.abortConnection()

    def _bound_waiting(self) -> None:
        """No answer could be given in between, so there is none."""
        if _spoken_on(self.transport) is not self or not self._handlingRequest:
            return
        if sum(map(len, self._dataBuffer)) > MAX_WAITING_BYTES:
            log.info("aborted", reason="too much was sent ahead of an answer")
            self._abort()

    def _follow_upgrade(self) -> None:
        """A WebSocket has its own protocol on our transport: learn from it when it ends."""
        protocol = _spoken_on(self.transport)
        if protocol is self:
            return
        lost, load = protocol.connectionLost, self.factory.load

        def connection_lost(reason: Any) -> None:
            load.connections -= 1
            lost(reason)

        protocol.connectionLost = connection_lost


def _spoken_on(transport: Any) -> Any:
    """The protocol that gets what comes; TLS is wrapped around it."""
    is_wrapped = isinstance(transport, ProtocolWrapper)
    return transport.wrappedProtocol if is_wrapped else transport.protocol


def _end_writing(transport: Any) -> None:
    """The client may go on sending, and still hears what was written. TLS knows no half closed
    connection, and writes what it holds before it says that it is over."""
    if isinstance(transport, ProtocolWrapper):
        transport.loseConnection()
    else:
        transport.loseWriteConnection()


class TurnedAway(Protocol):
    """Answers a connection beyond the bound and closes it."""

    transport: Any

    def connectionMade(self) -> None:
        """Called by the transport."""
        message = "too many open connections; try again"
        self.transport.write(refusal(503, message, reason="connections"))
        self.transport.loseConnection()


class BoundedFactory(HTTPFactory):  # type: ignore[misc]
    """Makes a channel for each connection, up to the bound."""

    protocol = BoundedChannel

    def __init__(self, server: Any, bounds: Bounds, load: Load) -> None:
        super().__init__(server)
        self.timeOut = KEEP_ALIVE_S
        self.bounds = bounds
        self.load = load

    def buildProtocol(self, addr: Any) -> Any:
        """Called for each new connection."""
        if self.load.connections >= self.bounds.max_connections:
            return TurnedAway()
        return super(HTTPFactory, self).buildProtocol(addr)  # past daphne's choice of request
