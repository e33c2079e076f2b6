"""WebSockets as daphne speaks them, with the close codes that an ASGI application may name."""

# mypy: allow-untyped-calls

from __future__ import annotations

from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol

STANDARD_CODES = range(1001, 1016)  # autobahn's own API takes none of these from us


class CodedProtocol(WebSocketProtocol):  # type: ignore[misc]
    """daphne's protocol; 1009 and 1012 reach the client too."""

    def serverClose(self, code: int | None = None) -> None:
        """Called when the application closes."""
        if code in STANDARD_CODES:
            self.sendCloseFrame(code=code, isReply=False)
        else:
            super().serverClose(code)


class CodedFactory(WebSocketFactory):  # type: ignore[misc]
    """Makes a protocol for each WebSocket."""

    protocol = CodedProtocol
