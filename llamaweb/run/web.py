"""One web process: `python -m llamaweb.run.web [--fd N]`.

Without `--fd` it listens on LLAMAWEB_HOST:LLAMAWEB_PORT. With it, it accepts from a listening
socket it inherited, which any number of web processes may share. On SIGTERM it stops accepting,
gives what runs GRACE_S to end, cancels the rest and exits.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

from daphne.server import Server  # isort: skip  (installs the reactor, so before any twisted import)

import structlog
from twisted.internet import defer, endpoints, reactor
from twisted.web import http

from llamaweb.boot import Boot, boot
from llamaweb.run.web_http import BoundedFactory, Bounds, Load

GRACE_S = 3.0
CANCEL_S = 1.0  # with GRACE_S below the 5 s after which a process manager kills
TIMEOUT_MARGIN_S = 30  # the application's own deadline comes first
CHUNK_BYTES = 256 * 1024
QUIET_PATHS = ("/health", "/v1/health", "/metrics", "/static/")

log = structlog.get_logger("llamaweb.web")


class WebServer(Server):  # type: ignore[misc]
    """daphne's server with our bounds and a graceful end."""

    def __init__(self, application: Any, endpoint: Any, bounds: Bounds, **options: Any) -> None:
        super().__init__(application, endpoints=[endpoint], **options)
        self.endpoint = endpoint
        self.bounds = bounds
        self.load = Load()

    def run(self) -> None:
        """Serve until a signal. A copy of daphne's set-up is avoided: its names are replaced."""
        self.connections: dict[Any, dict[str, Any]] = {}
        self.http_factory = BoundedFactory(self, self.bounds, self.load)
        self._prepare_websockets()
        asyncio.set_event_loop(reactor._asyncioEventloop)
        reactor.callLater(1, self.application_checker)
        reactor.callLater(2, self.timeout_checker)
        listening = self.endpoint.listen(self.http_factory)
        listening.addCallbacks(self._listening, self._not_listening)
        reactor.addSystemEventTrigger("before", "shutdown", self._shut_down)
        reactor.run(installSignalHandlers=True)
        if self.abort_start:
            raise SystemExit(1)
