"""The recorder between a client and a server."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.edge.clients.record import (
    KEY,
    MAX_DESCRIPTION,
    MAX_TEXT,
    Proxy,
    Recording,
    scrubbed,
    shortened,
)
from tests.edge.clients.recorded import FOLDER

SECRET = "lw-secret"
WAIT_S = 10.0
LONG = "x" * (MAX_TEXT + 1)


class Server(BaseHTTPRequestHandler):
    """Answers with the key it was given, in two pieces."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(418)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"data: ")
        self.wfile.flush()
        self.wfile.write(self.headers["Authorization"].encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """In front of such a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        recording = Recording(((SECRET, KEY), ("box", "machine")))
        with Proxy(url, SECRET, recording) as made:
            threads = [threading.Thread(target=each.serve_forever) for each in (server, made)]
            for thread in threads:
                thread.start()
            yield made
            for each, thread in zip((server, made), threads, strict=True):
                each.shutdown()
                thread.join(WAIT_S)


def post(proxy: Proxy, body: dict[str, Any]) -> tuple[int, bytes]:
    """Ask through it."""
    parts = urlsplit(proxy.url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=WAIT_S)
    headers = {"User-Agent": "box/1", "Authorization": f"Bearer {SECRET}", "X-Box": "box"}
    try:
        connection.request("POST", "/v1/x?a=1", json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_what_is_asked_is_handed_on_and_kept(proxy: Proxy) -> None:
    body = {"text": f"at box, with {SECRET}", "long": LONG, "n": [1, None]}
    for _ in range(2):
        assert post(proxy, body) == (418, f"data: Bearer {SECRET}".encode())
    kept = {"text": f"at machine, with {KEY}", "long": f"{LONG[:MAX_TEXT]}…", "n": [1, None]}
    assert proxy.recording.requests == [
        {
            "method": "POST",
            "path": "/v1/x?a=1",
            "headers": {"user-agent": "machine/1"},
            "body": kept,
        }
    ]
    made = json.loads(proxy.recording.text("Client 1"))
    assert made == {"client": "Client 1", "requests": proxy.recording.requests}


def test_ids_folders_and_addresses_say_nothing() -> None:
    body = {
        "id": "user_0123456789abcdef0123456789abcdef_1",
        "session": "0f8fad5b-d9cb-469f-a165-70867728950e",
        "cwd": "/tmp/tmp.aB3_x/cart.py",
        "url": "http://127.0.0.1:40123/v1",
        "words": "boxes inbox box",
    }
    assert scrubbed(body, [("box", "machine")]) == {
        "id": f"user_{'0' * 32}_1",
        "session": "00000000-0000-0000-0000-000000000000",
        "cwd": "/home/dev/project/cart.py",
        "url": "http://localhost:8000/v1",
        "words": "boxes inbox machine",
    }


def test_texts_are_cut_but_not_those_that_are_read() -> None:
    arguments = json.dumps({"text": LONG})
    assert shortened([LONG, arguments, LONG[:-1]]) == [f"{LONG[:-1]}…", arguments, LONG[:-1]]
    cut = f"{LONG[:MAX_DESCRIPTION]}…"
    assert shortened({"description": LONG, "other": [1]}) == {"description": cut, "other": [1]}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_nothing_private_is_in_a_recording(path: Any) -> None:
    text = path.read_text("utf-8")
    for word in ("lw-", "/tmp/", "/root", "127.0.0.1", '"authorization"', '"x-api-key"', '"host"'):
        assert word not in text.lower(), word
