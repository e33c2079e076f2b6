"""A server that speaks OpenAI's API as well or as badly as a test asks, on real sockets."""

from __future__ import annotations

import http.server
import json
import select
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

KEY = "sk-upstream-0123456789"
MODEL = "remote-model"
HOLD_S = 30.0


def chunk(delta: dict[str, Any] | None = None, *, finish: str | None = None, **more: Any) -> bytes:
    """A frame of a chat answer."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return frame({"object": "chat.completion.chunk", "choices": choices, **more})


def frame(data: Any) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


DONE = b"data: [DONE]\n\n"
USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 4},
}


def answer_of(*texts: str, finish: str = "stop", usage: Any = USAGE) -> list[bytes]:
    """The frames of a good answer."""
    frames = [chunk({"role": "assistant", "content": ""})]
    frames += [chunk({"content": text}) for text in texts]
    frames.append(chunk({}, finish=finish))
    if usage is not None:
        frames.append(chunk(usage=usage))
    return [*frames, DONE]


@dataclass
class Reply:
    """One answer. `pause_s` between frames; `holds`: waits after the last frame until the client
    leaves or the test is over; `cuts`: the connection breaks there, without an end."""

    frames: list[bytes] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "text/event-stream"
    pause_s: float = 0.0
    holds: bool = False
    cuts: bool = False


def refusal(status: int, error: dict[str, Any] | None = None, **headers: str) -> Reply:
    """An error as such servers send it."""
    body = json.dumps({"error": {"message": f"no, {KEY}", **(error or {})}}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply([body], status=status, headers=named, kind="application/json")


def whole(body: Any, **more: Any) -> Reply:
    """An answer that is no stream."""
    return Reply([json.dumps(body).encode()], kind="application/json", **more)


def vectors_of(*rows: Any, **more: Any) -> dict[str, Any]:
    """A good answer of OpenAI's /embeddings."""
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    usage = {"prompt_tokens": 9, "total_tokens": 9}
    return {"object": "list", "data": data, "model": MODEL, "usage": usage, **more}


def scores_of(*scores: Any, **more: Any) -> dict[str, Any]:
    """A good answer of Jina's /rerank, best first."""
    results = [{"index": i, "relevance_score": score} for i, score in enumerate(scores)]
    results.sort(key=lambda result: -result["relevance_score"])
    return {"model": MODEL, "results": results, "usage": {"total_tokens": 7}, **more}


@dataclass
class Asked:
    """What a client asked."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class FakeUpstream:
    """Gives `replies` one after the other, then echoes the last message letter by letter.

    Attributes:
        key: the only one that is taken.
        listing: of GET /models; `models_status` another status than 200.
        asked: every POST.
        left: set when a client went before its answer was over.
    """

    def __init__(self) -> None:
        self.key = KEY
        self.replies: deque[Reply] = deque()
        self.listing: Any = {"object": "list", "data": [{"id": MODEL, "max_model_len": 4096}]}
        self.models_status = 200
        self.num_looks = 0
        self.asked: list[Asked] = []
        self.left = threading.Event()
        self.is_over = threading.Event()
        self.echo_pause_s = 0.0

    def __enter__(self) -> FakeUpstream:
        handler = type("Handler", (_Handler,), {"upstream": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.is_over.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def give(self, *replies: Reply) -> None:
        self.replies.extend(replies)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream: FakeUpstream

    def do_GET(self) -> None:
        self.upstream.num_looks += 1
        self.close_connection = True
        status = self.upstream.models_status if self._has_key() else 401
        self._whole(status, json.dumps(self.upstream.listing).encode())

    def do_POST(self) -> None:
        self.close_connection = True
        length = int(self.headers["Content-Length"])
        body = json.loads(self.rfile.read(length))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.upstream.asked.append(Asked(self.path, headers, body))
        if not self._has_key():
            self._whole(401, json.dumps({"error": {"message": f"bad key {self.headers}"}}).encode())
            return
        reply = self.upstream.replies.popleft() if self.upstream.replies else self._echo(body)
        try:
            self._send(reply)
        except OSError:
            self.upstream.left.set()

    def _has_key(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {self.upstream.key}"

    def _echo(self, body: dict[str, Any]) -> Reply:
        if self.path.endswith("/embeddings"):
            return whole(vectors_of(*([float(len(t)), 3.0] for t in body["input"])))
        if self.path.endswith("/rerank"):
            return whole(scores_of(*(float(body["query"] in t) for t in body["documents"])))
        if self.path.endswith("/chat/completions"):
            frames = answer_of(*body["messages"][-1]["content"])
        else:
            texts = [{"index": 0, "text": letter} for letter in body["prompt"]]
            frames = [frame({"choices": [text]}) for text in texts]
            end = {"index": 0, "text": "", "finish_reason": "stop"}
            frames += [frame({"choices": [end], "usage": USAGE}), DONE]
        return Reply(frames, pause_s=self.upstream.echo_pause_s)

    def _whole(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for data in reply.frames:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
            if reply.pause_s and self._client_leaves(reply.pause_s):
                return
        if reply.holds:
            self._client_leaves(HOLD_S)
        elif not reply.cuts:
            self.wfile.write(b"0\r\n\r\n")

    def _client_leaves(self, within_s: float) -> bool:
        """Whether the client closes the connection in that time."""
        ends_ts = time.monotonic() + within_s
        while time.monotonic() < ends_ts and not self.upstream.is_over.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.02)
            if readable and not self.connection.recv(1):
                self.upstream.left.set()
                return True
        return False

    def log_message(self, *_args: object) -> None:
        pass
