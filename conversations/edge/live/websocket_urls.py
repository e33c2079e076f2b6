"""WebSocket addresses of the browser app."""

from __future__ import annotations

from django.urls import re_path

from conversations.edge.live.consumer import LiveConsumer

websocket_routes = [re_path(r"^api/app/socket$", LiveConsumer.as_asgi())]
