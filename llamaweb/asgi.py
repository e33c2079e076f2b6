"""What the web server calls: HTTP to Django, WebSockets to Channels."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "llamaweb.settings")
django_application = get_asgi_application()  # before anything that needs the apps

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.conf import settings  # noqa: E402
from django.urls import re_path  # noqa: E402

from conversations.edge.live.lifespan import lifespan  # noqa: E402
from conversations.edge.live.websocket_urls import websocket_routes  # noqa: E402
from llamaweb.proxies import TrustedProxies  # noqa: E402
from llamaweb.websockets import NoSuchSocket  # noqa: E402

sockets = URLRouter([*websocket_routes, re_path(r"", NoSuchSocket.as_asgi())])

application = TrustedProxies(
    ProtocolTypeRouter({"http": django_application, "websocket": sockets, "lifespan": lifespan}),
    settings.ENV.trusted_proxies,
)
