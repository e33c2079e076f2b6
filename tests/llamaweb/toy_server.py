"""The real web server around a toy application.

`python -m tests.llamaweb.toy_server PORT NAME=N …`, where NAME is a constant of
`llamaweb.run.web_http`, `llamaweb.run.web_tls` or `llamaweb.run.web`, or `max_body_bytes` or
`max_connections`, or a file for TLS: `certificate`, `key`, `client_ca`. Says "ready" when it
listens, and what becomes of streams.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import structlog

from llamaweb.run import web  # first: it installs the reactor

from llamaweb.run import web_http, web_tls  # isort: skip
from llamaweb.run.web_tls import Certificates, TlsEndpoint

POURED = 1200  # messages of 64 KiB: more than the kernels' buffers take


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """POST /length, GET /slow (0.5 s), GET /stream and /pour (endless), GET /root, WebSocket: echo,
    "pour", or what it says is a close code."""
    if scope["type"] == "websocket":
        await _echo(receive, send)
    elif scope["path"] == "/slow":
        await asyncio.sleep(0.5)
        await _answer(send, b"slow")
    elif scope["path"] == "/root":
        await _answer(send, scope["root_path"].encode())
    elif scope["path"] == "/fail":
        raise RuntimeError("secret detail")
    elif scope["path"] == "/stream":
        await _stream(send, b".", 0.02)
    elif scope["path"] == "/pour":
        await _stream(send, b"x" * 65536, 0)
    else:
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        await _answer(send, str(size).encode())


async def _answer(send: Any, body: bytes) -> None:
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _stream(send: Any, chunk: bytes, pause_s: float) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    sent = 0
    try:
        while True:
            began_ts = time.monotonic()
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            sent += len(chunk)
            if time.monotonic() - began_ts > 1.0:
                print(f"waited after {sent}", flush=True)
            await asyncio.sleep(pause_s)
    except asyncio.CancelledError:
        print("cancelled", flush=True)
        raise


async def _echo(receive: Any, send: Any) -> None:
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] != "websocket.disconnect":
        if message["type"] != "websocket.receive":
            continue
        if message["text"].isdigit():
            await send({"type": "websocket.close", "code": int(message["text"])})
        elif message["text"] == "pour":
            for _ in range(POURED):
                await send({"type": "websocket.send", "text": "x" * 65536})
                await asyncio.sleep(0.001)
            print("poured", flush=True)
        else:
            await send({"type": "websocket.send", "text": message["text"]})
    print(f"gone with {message['code']}", flush=True)


class Toy(web.WebServer):
    """Says when it listens."""

    def _listening(self, port: Any) -> None:
        super()._listening(port)
        print("ready", flush=True)


def main() -> None:
    """Serve until a signal."""
    bounds = {"max_body_bytes": 1000, "max_connections": 100}
    files: dict[str, Path] = {}
    for argument in sys.argv[2:]:
        name, _, value = argument.partition("=")
        if name in ("certificate", "key", "client_ca"):
            files[name] = Path(value)
        elif name in bounds:
            bounds[name] = int(value)
        else:
            owner = next(module for module in (web_http, web_tls, web) if hasattr(module, name))
            setattr(owner, name, float(value))
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    port = int(sys.argv[1])
    endpoint: Any = web.endpoints.TCP4ServerEndpoint(web.reactor, port, interface="127.0.0.1")
    if files:
        endpoint = TlsEndpoint(endpoint, Certificates(**files))
    Toy(application, endpoint, web_http.Bounds(**bounds), server_name="llamaweb").run()


if __name__ == "__main__":
    main()
