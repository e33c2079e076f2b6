"""WebSocket addresses that nobody serves."""

from __future__ import annotations

from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer

from conversations.edge.live.closing import CloseCode
from conversations.edge.live.origin import is_own_page


class NoSuchSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Refuses politely; without it the router would raise and log a traceback for any address."""

    async def connect(self) -> None:
        """Refuse before the handshake is done."""
        is_own = is_own_page(self.scope, is_needed=True)
        await self.close(code=int(CloseCode.NOT_FOUND if is_own else CloseCode.ORIGIN))

    async def receive(self, text_data: Any = None, bytes_data: Any = None) -> None:
        """Never called: the socket is not open."""
