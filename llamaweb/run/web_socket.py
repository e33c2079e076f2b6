"""WebSockets as daphne speaks them, with the close codes that an ASGI application may name, and a
bound on what waits for a client."""

# mypy: allow-untyped-calls

from __future__ import annotations

import structlog
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol

STANDARD_CODES = range(1001, 1016)  # autobahn's own API takes none of these from us
# Far beyond what an application leaves unacknowledged: only who acknowledges what it doesn't read
# gets here.
MAX_UNSENT_BYTES = 8 * 1024 * 1024

log = structlog.get_logger("llamaweb.web")


class CodedProtocol(WebSocketProtocol):  # type: ignore[misc]
    """daphne's protocol; 1009 and 1012 reach the client too."""

    def serverSend(self, content: str | bytes, binary: bool = False) -> None:
        """Called with each message of the application's."""
        super().serverSend(content, binary)
        waiting = len(self.transport.dataBuffer) + self.transport._tempDataLen
        if waiting > MAX_UNSENT_BYTES:
            log.info("aborted", reason="a client of a WebSocket doesn't take in what is sent")
            self.dropConnection(abort=True)

    def serverClose(self, code: int | None = None) -> None:
        """Called when the application closes."""
        if code in STANDARD_CODES:
            self.sendCloseFrame(code=code, isReply=False)
        else:
            super().serverClose(code)


class CodedFactory(WebSocketFactory):  # type: ignore[misc]
    """Makes a protocol for each WebSocket."""

    protocol = CodedProtocol
