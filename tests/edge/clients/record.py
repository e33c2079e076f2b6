"""Records what a client asks of a running server, for `test_replay.py` to ask it again.

    LLAMAWEB_KEY=lw-… python tests/edge/clients/record.py NAME "CLIENT AND VERSIONS" COMMAND…

COMMAND runs behind a proxy and finds its address and a key in the variables that clients read;
`NAME.json` beside this file is written anew when it ends, whatever it returned. Long texts are cut,
and keys, names and places of this machine are replaced. README.md has the commands.
"""

from __future__ import annotations

import contextlib
import getpass
import http.client
import json
import os
import platform
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

FOLDER = Path(__file__).resolve().parent
KEY = "recorded-key"
PROJECT = "/home/dev/project"
COMMAND_S = 600.0
SOCKET_S = 120.0
MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_REQUESTS = 200
# Characters of texts that stay: the prompts of clients are theirs.
MAX_TEXT = 80
MAX_DESCRIPTION = 20
PIECE_BYTES = 65_536
KEPT_HEADERS = (
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "originator",
    "user-agent",
    "x-app",
)
HOP_HEADERS = ("connection", "keep-alive", "transfer-encoding")
# Ids of installations, sessions and accounts.
ID_RE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32,}")
FOLDER_RE = re.compile(r"/tmp/(?:tmp)?[.\w-]+")
ADDRESS_RE = re.compile(r"https?://(?:localhost|127\.0\.0\.1):\d+")


@dataclass
class Recording:
    """The requests of one client in the order they came, each kind of body once."""

    replaced: tuple[tuple[str, str], ...] = ()
    requests: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, method: str, path: str, headers: Mapping[str, str], data: bytes) -> None:
        """Keep a request, scrubbed; what isn't JSON is kept without its body. Looks whether anybody
        is there ask nothing."""
        if method == "HEAD":
            return
        kept = {name: headers[name] for name in KEPT_HEADERS if name in headers}
        request: dict[str, Any] = {"method": method, "path": path, "headers": kept}
        with contextlib.suppress(ValueError):
            request["body"] = json.loads(data)
        request = scrubbed(request, self.replaced)
        request |= {name: shortened(request[name]) for name in ("body",) if name in request}
        with self.lock:
            if request not in self.requests and len(self.requests) < MAX_REQUESTS:
                self.requests.append(request)

    def text(self, client: str) -> str:
        """The fixture: JSON, a request a line."""
        lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in self.requests)
        return f'{{"client": {json.dumps(client)}, "requests": [\n{lines}\n]}}\n'


def shortened(value: Any, most: int = MAX_TEXT) -> Any:
    """`value` with its long texts cut, but those that are JSON themselves (arguments of calls)."""
    if isinstance(value, dict):
        return {
            name: shortened(each, MAX_DESCRIPTION if name == "description" else MAX_TEXT)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [shortened(each) for each in value]
    if isinstance(value, str) and len(value) > most and not _is_json(value):
        return f"{value[:most]}…"
    return value


def scrubbed(request: dict[str, Any], replaced: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """`request` without what tells of the machine it was made on."""
    text = json.dumps(request, ensure_ascii=False)
    for word, other in replaced:
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", other, text)
    text = ADDRESS_RE.sub("http://localhost:8000", FOLDER_RE.sub(PROJECT, text))
    text = ID_RE.sub(lambda found: re.sub("[0-9a-f]", "0", found[0]), text)
    made: dict[str, Any] = json.loads(text)
    return made


def words_of_this_machine(key: str) -> tuple[tuple[str, str], ...]:
    """What stands for whom and what: places first, since names are parts of them."""
    words = {
        key: KEY,
        str(Path.cwd()): PROJECT,
        str(Path.home()): "/home/dev",
        platform.release(): "6.0",
        platform.node(): "machine",
        getpass.getuser(): "dev",
    }
    tell_nothing = {"", "/", "root", "localhost"}
    return tuple((word, other) for word, other in words.items() if word not in tell_nothing)


def _is_json(text: str) -> bool:
    try:
        return text.lstrip()[:1] in "{[" and bool(json.loads(text))
    except ValueError:
        return False


class Proxy(ThreadingHTTPServer):
    """Hands everything on to the server `url` with `key`, and keeps what was asked."""

    daemon_threads = True

    def __init__(self, url: str, key: str, recording: Recording) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        parts = urlsplit(url)
        self.upstream = (str(parts.hostname), parts.port or 80)
        self.key = key
        self.recording = recording

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """One connection of a client, a request each."""

    server: Proxy
    timeout = SOCKET_S

    def do_POST(self) -> None:
        """Hand on and back, in pieces as they come."""
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BODY_BYTES:
            self.send_error(413)
            return
        data = self.rfile.read(length)
        headers = {name.lower(): text for name, text in self.headers.items()}
        self.server.recording.add(self.command, self.path, headers, data)
        upstream = http.client.HTTPConnection(*self.server.upstream, timeout=SOCKET_S)
        try:
            sent = {name: text for name, text in headers.items() if name not in HOP_HEADERS}
            host, port = self.server.upstream
            sent |= {"host": f"{host}:{port}", "accept-encoding": "identity"}
            sent.pop("x-api-key", None)
            sent["authorization"] = f"Bearer {self.server.key}"
            upstream.request(self.command, self.path, data, sent)
            self._answer(upstream.getresponse())
        finally:
            upstream.close()

    do_GET = do_DELETE = do_HEAD = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """One line an answer, for whoever records."""
        print(f"  {format % args}", file=sys.stderr)

    def _answer(self, response: http.client.HTTPResponse) -> None:
        self.send_response(response.status)
        for name, text in response.getheaders():
            if name.lower() not in (*HOP_HEADERS, "server", "date"):
                self.send_header(name, text)
        self.end_headers()
        while piece := response.read1(PIECE_BYTES):
            self.wfile.write(piece)
            self.wfile.flush()


def environment(url: str) -> dict[str, str]:
    """What clients read to find the server `url`."""
    return {
        "LLAMAWEB_URL": url,
        "LLAMAWEB_KEY": KEY,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "OLLAMA_HOST": url,
        "OLLAMA_API_BASE": url,
        "OLLAMA_API_KEY": KEY,
    }


def main(arguments: list[str]) -> int:
    """Record a command; its exit status."""
    if len(arguments) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    name, client, *command = arguments
    url, key = os.environ.get("LLAMAWEB_URL", "http://127.0.0.1:8000"), os.environ["LLAMAWEB_KEY"]
    recording = Recording(words_of_this_machine(key))
    with Proxy(url, key, recording) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        status = subprocess.run(
            command, env={**os.environ, **environment(proxy.url)}, timeout=COMMAND_S, check=False
        ).returncode
        proxy.shutdown()
    (FOLDER / f"{name}.json").write_text(recording.text(client), encoding="utf-8")
    print(f"{len(recording.requests)} requests, exit status {status}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
