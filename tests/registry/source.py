"""A real web server that serves one file, as well or as badly as a test asks."""

from __future__ import annotations

import contextlib
import http.server
import threading
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Source:
    """Serves `body` at every path but those in `files`.

    Attributes:
        files: bodies by path (without the query).
        at: status and headers of the answer at a path; a status of 0 is the usual one.
        etag: sent with it, "" for none; `If-Range` is obeyed.
        ranges: whether `Range` is.
        cut_at: close the connection after that many bytes of an answer, once.
        hold_at: send that many bytes of an answer, then wait for `go_on`.
        hold_path: only of the answer at that path, "" for any.
        pause_s: between pieces of `piece` bytes.
        endless: the body comes again and again, without a length.
        status, headers: of the answer; a status of 3xx sends no body.
        asked: the headers of every request; its path is ":path".
    """

    body: bytes = b""
    files: dict[str, bytes] = field(default_factory=dict)
    at: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)
    etag: str = '"v1"'
    ranges: bool = True
    cut_at: int = 0
    hold_at: int = 0
    hold_path: str = ""
    pause_s: float = 0.0
    piece: int = 16_384
    endless: bool = False
    status: int = 0
    statuses: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)
    is_held: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Source:
        handler = type("Handler", (_Handler,), {"source": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/files/My%20Model.Q4_K_M.gguf?token=secret"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    source: Source

    def do_GET(self) -> None:
        source = self.source
        path = self.path.partition("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        source.asked.append(headers | {":path": self.path})
        self.close_connection = True
        self.body = source.files.get(path, source.body)
        status, self.more = source.at.get(path, (0, {}))
        if source.statuses or source.status or status:
            self._empty(source.statuses.pop(0) if source.statuses else source.status or status)
            return
        with contextlib.suppress(OSError):  # the client went away
            self._send(*self._part())

    def _empty(self, status: int) -> None:
        self.send_response(status)
        for name, value in (self.source.headers | self.more).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _part(self) -> tuple[int, int]:
        """Status and first byte of the answer."""
        asked = self.headers.get("Range", "")
        is_same = self.headers.get("If-Range", self.source.etag) == self.source.etag
        if not (self.source.ranges and asked and is_same):
            return 200, 0
        start = int(asked.removeprefix("bytes=").partition("-")[0])
        return (206, start) if start < len(self.body) else (416, 0)

    def _send(self, status: int, start: int) -> None:
        source = self.source
        data = self.body[start:] if status != 416 else b""
        self.send_response(status)
        if source.etag:
            self.send_header("ETag", source.etag)
        if status == 206:
            size = len(self.body)
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        for name, value in (source.headers | self.more).items():
            self.send_header(name, value)
        if not source.endless and "Content-Length" not in source.headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self._write(data)

    def _write(self, data: bytes) -> None:
        source, done = self.source, 0
        cut_at, source.cut_at = source.cut_at, 0
        may_hold = source.hold_path in ("", self.path.partition("?")[0])
        while done < len(data) or source.endless:
            piece: Any = data[done % len(data) :][: source.piece] if data else b""
            if cut_at and done + len(piece) > cut_at:
                self.wfile.write(piece[: cut_at - done])
                return
            if may_hold and source.hold_at and done + len(piece) > source.hold_at:
                self.wfile.write(piece[: source.hold_at - done])
                self.wfile.flush()
                source.hold_at = 0
                source.is_held.set()
                source.go_on.wait(30)
                return
            self.wfile.write(piece)
            done += len(piece)
            if source.pause_s:
                time.sleep(source.pause_s)

    def log_message(self, *_args: object) -> None:
        pass
