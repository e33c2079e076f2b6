"""WebSocket addresses that nobody serves."""

from __future__ import annotations

from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer

CLOSE_NOT_FOUND = 4404


class NoSuchSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Refuses politely; without it the router would raise and log a traceback for any address."""

    async def connect(self) -> None:
        """Refuse before the handshake is done."""
        await self.close(code=CLOSE_NOT_FOUND)

    async def receive(self, text_data: Any = None, bytes_data: Any = None) -> None:
        """Never called: the socket is not open."""
