"""The web server's shutdown, as ASGI tells it: live connections close so that clients go to
another process, or to the next one, at once."""

from __future__ import annotations

from typing import Any

from conversations.edge.live.watch import end_all_here
from llamaweb.lib.errors import UnavailableError


async def lifespan(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """An ASGI application for scopes of type "lifespan"."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
            continue
        end_all_here(UnavailableError("the server restarts"))
        await send({"type": "lifespan.shutdown.complete"})
        return
