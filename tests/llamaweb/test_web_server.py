"""The web server's bounds, over real sockets: bodies, times, connections, the end."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import free_port

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 30.0
LIMIT = 1000


class Toy:
    """One server process."""

    def __init__(self, port: int, process: subprocess.Popen[str]) -> None:
        self.port = port
        self.process = process

    def connect(self) -> socket.socket:
        """A fresh connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S)

    def get(self, path: str) -> tuple[int, bytes]:
        """One request on a connection of its own."""
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        ) as client:
            client.request("GET", path)
            response = client.getresponse()
            return response.status, response.read()

    def line(self) -> str:
        """What the server says next."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextlib.contextmanager
def toy(*arguments: str) -> Iterator[Toy]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.llamaweb.toy_server", str(port), *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        server = Toy(port, process)
        assert server.line() == "ready"
        yield server
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def server() -> Iterator[Toy]:
    with toy("HEADER_S=1", "BODY_S=1", "LINGER_S=1") as found:
        yield found


def read_all(link: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a response, up to the end of the connection."""
    data = b""
    while chunk := link.recv(65536):
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


def assert_refused(answer: tuple[int, dict[str, str], bytes], status: int) -> dict[str, Any]:
    assert answer[0] == status
    assert answer[1]["content-type"] == "application/json; charset=utf-8"
    assert answer[1]["connection"] == "close"
    assert answer[1]["x-request-id"].startswith("req_")
    error: dict[str, Any] = json.loads(answer[2])["error"]
    assert error["code"] == status
    assert set(error) >= {"message", "type", "param", "code"}
    return error


def test_a_body_up_to_the_limit_is_taken(server: Toy) -> None:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
    with contextlib.closing(client):
        for size in (0, 1, LIMIT):  # three requests on one connection
            client.request("POST", "/length", body=b"x" * size)
            response = client.getresponse()
            assert (response.status, response.read()) == (200, str(size).encode())
            assert response.headers["Server"] == "llamaweb"


def test_an_announced_length_is_refused_before_any_of_it_comes(server: Toy) -> None:
    with server.connect() as link:
        link.sendall(b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n")
        error = assert_refused(read_all(link), 413)
    assert error["max_body_bytes"] == LIMIT
    assert error["type"] == "invalid_request_error"


def test_a_refusal_has_the_shape_of_the_api_that_was_asked(server: Toy) -> None:
    told = {}
    for path in ("/api/chat", "/v1/messages?beta=true", "/v1/chat/completions"):
        with server.connect() as link:
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n"
            link.sendall(head.encode())
            status, headers, body = read_all(link)
        assert status == 413
        assert headers["x-request-id"].startswith("req_")
        told[path] = json.loads(body)
    message = f"the request body is larger than {LIMIT} bytes (LLAMAWEB_MAX_BODY_BYTES)"
    assert told["/api/chat"] == {"error": message}
    assert told["/v1/messages?beta=true"]["error"] == {
        "type": "request_too_large",
        "message": message,
    }
    assert told["/v1/chat/completions"]["error"]["max_body_bytes"] == LIMIT


def test_the_client_is_not_asked_to_go_on(server: Toy) -> None:
    with server.connect() as link:
        link.sendall(
            b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        assert_refused(read_all(link), 413)


def test_a_client_that_sends_everything_first_still_gets_the_answer(server: Toy) -> None:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
    with contextlib.closing(client):
        client.request("POST", "/length", body=b"x" * 10_000_000)
        response = client.getresponse()
        assert response.status == 413
        assert json.loads(response.read())["error"]["code"] == 413


def test_a_body_without_a_length_is_refused_while_it_comes(server: Toy) -> None:
    with server.connect() as link:
        link.sendall(b"POST /length HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        link.sendall(b"1f4\r\n" + b"x" * 500 + b"\r\n")
        link.sendall(b"1f5\r\n" + b"x" * 501 + b"\r\n")  # the end is never sent
        assert_refused(read_all(link), 413)


def test_chunks_up_to_the_limit_are_taken(server: Toy) -> None:
    with server.connect() as link:
        link.sendall(
            b"POST /length HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + b"x" * LIMIT + b"\r\n0\r\n\r\n"
        )
        assert read_all(link)[::2] == (200, b"1000")


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GET /length HTTP/1.1\r\nHost: x\r\n",
        b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nxx",
    ],
    ids=["nothing", "headers", "body"],
)
def test_a_slow_client_is_turned_away_however_it_drips(server: Toy, start: bytes) -> None:
    with server.connect() as link:
        link.sendall(start)
        link.settimeout(0.1)
        answer = b""
        deadline = time.monotonic() + DEADLINE_S
        while not answer and time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                answer = link.recv(65536)
            if start and not answer:
                link.sendall(b"X")
        assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 40_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-More: y\r\n" * 4_000 + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
    ],
    ids=["long header", "many headers", "bad length", "no HTTP"],
)
def test_what_is_no_decent_request(server: Toy, request_: bytes, status: int) -> None:
    with server.connect() as link:
        link.sendall(request_)
        assert_refused(read_all(link), status)


def test_an_application_that_raises_tells_nothing(server: Toy) -> None:
    status, body = server.get("/fail")
    assert status == 500
    assert json.loads(body)["error"]["type"] == "server_error"
    assert b"secret" not in body


@pytest.mark.parametrize("value", [b"/zz", b"%2Fzz", b"\xff"], ids=["path", "quoted", "bytes"])
def test_a_client_can_not_choose_the_root_path(server: Toy, value: bytes) -> None:
    with server.connect() as link:
        link.sendall(
            b"GET /root HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Daphne-Root-Path: " + value + b"\r\ndaphne-root-path: " + value + b"\r\n\r\n"
        )
        assert read_all(link)[::2] == (200, b"")


def test_a_strange_websocket_protocol_is_the_clients_mistake(server: Toy) -> None:
    with server.connect() as link:
        link.sendall(
            b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Protocol: \xff\r\n\r\n"
        )
        assert link.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_a_few_requests_may_be_sent_ahead(server: Toy) -> None:
    with server.connect() as link:
        link.sendall(
            b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
            b"GET /length HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        answer = b""
        while chunk := link.recv(65536):
            answer += chunk
        assert answer.count(b"HTTP/1.1 200 ") == 2
        assert answer.endswith(b"\r\n\r\n0")


@pytest.mark.parametrize("body", [b"", b"x"], ids=["GET", "POST"])
def test_who_sends_too_much_ahead_is_cut_off(server: Toy, body: bytes) -> None:
    """Else nobody reads from the socket, and nobody notices that the client has gone."""
    with server.connect() as link:
        head = b"POST /stream HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        link.sendall(head + body)
        assert link.recv(65536).startswith(b"HTTP/1.1 200 ")
        with contextlib.suppress(ConnectionError):
            link.sendall(b"x" * 20_000)
        deadline = time.monotonic() + DEADLINE_S / 3
        with contextlib.suppress(ConnectionError):
            while link.recv(65536):
                assert time.monotonic() < deadline


def test_a_websocket_lives_longer_than_a_request_may_take(server: Toy) -> None:
    with server.connect() as link:
        link.sendall(
            b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert link.recv(65536).startswith(b"HTTP/1.1 101 ")
        deadline = time.monotonic() + 2.5  # well past HEADER_S and BODY_S of this server
        while time.monotonic() < deadline:
            link.sendall(b"\x81\x82\x00\x00\x00\x00hi")
            assert link.recv(65536) == b"\x81\x02hi"


def test_bodies_together_are_bounded() -> None:
    with toy("BODIES_HELD=1", "BODY_S=20") as server, server.connect() as first:
        head = b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n"
        first.sendall(head + b"x" * 600)
        _until_held(server, head)
        first.sendall(b"x" * 300)
        assert first.recv(65536).startswith(b"HTTP/1.1 200 ")
        with server.connect() as second:  # the first one's bytes are given back
            second.sendall(head + b"x" * 900)
            assert second.recv(65536).startswith(b"HTTP/1.1 200 ")


def _until_held(server: Toy, head: bytes) -> None:
    """The 600 bytes have arrived: another 600 are too many."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        with server.connect() as link:
            link.sendall(head + b"x" * 600)
            link.settimeout(0.3)
            with contextlib.suppress(TimeoutError):
                assert_refused(read_all(link), 503)
                return
        assert time.monotonic() < deadline


def test_connections_are_bounded_and_given_back() -> None:
    with toy("max_connections=3") as server, contextlib.ExitStack() as stack:
        links = [stack.enter_context(server.connect()) for _ in range(3)]
        with server.connect() as one_more:
            error = assert_refused(read_all(one_more), 503)
            assert error["reason"] == "connections"
        links.pop().close()
        deadline = time.monotonic() + DEADLINE_S
        while server.get("/length")[0] != 200:
            assert time.monotonic() < deadline


def stop(server: Toy) -> int:
    server.process.send_signal(signal.SIGTERM)
    return server.process.wait(DEADLINE_S)


def test_what_runs_may_end_before_the_server_does() -> None:
    with toy() as server, server.connect() as link, server.connect():
        link.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        deadline = time.monotonic() + DEADLINE_S
        while server.get("/length")[0] != 200:  # the slow one has begun by then
            assert time.monotonic() < deadline
        assert stop(server) == 0
        assert read_all(link)[::2] == (200, b"slow")


def test_what_does_not_end_is_cancelled() -> None:
    with toy("GRACE_S=0.2") as server, server.connect() as link:
        link.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        assert link.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert stop(server) == 0
        assert server.line() == "cancelled"


MAX_BUFFERED = 32 * 1024 * 1024  # the kernels' buffers of both ends; daphne alone keeps it all


def test_an_answer_waits_for_a_client_that_does_not_read() -> None:
    with toy("WRITE_S=2") as server, server.connect() as link:
        link.sendall(b"GET /pour HTTP/1.1\r\nHost: x\r\n\r\n")
        link.recv(10)
        said = server.line()  # it is dropped after WRITE_S
        assert said.startswith("waited after ")
        assert int(said.rpartition(" ")[2]) < MAX_BUFFERED


def test_an_answer_goes_on_when_the_client_reads_again() -> None:
    with toy() as server, server.connect() as link:
        link.sendall(b"GET /pour HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.5)  # its buffers are full now, or it reads late: both must do
        left = 2 * MAX_BUFFERED
        while left > 0:
            data = link.recv(1 << 20)
            assert data
            left -= len(data)


@pytest.mark.parametrize("code", [1009, 1012, 4401])
def test_close_codes_reach_the_client(server: Toy, code: int) -> None:
    with server.connect() as link:
        link.sendall(
            f"GET / HTTP/1.1\r\nHost: x\r\nOrigin: http://127.0.0.1:{server.port}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += link.recv(4096)
        assert answer.startswith(b"HTTP/1.1 101")
        text = str(code).encode()
        link.sendall(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)
        frame = answer.partition(b"\r\n\r\n")[2]
        while len(frame) < 4:
            frame += link.recv(4096)
        assert frame[0] == 0x88
        assert int.from_bytes(frame[2:4], "big") == code


def test_a_websocket_that_is_not_read_is_dropped() -> None:
    """Not by what it acknowledges: whoever doesn't read can still say that they did."""
    with toy() as server, server.connect() as link:
        link.sendall(
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert link.recv(65536).startswith(b"HTTP/1.1 101 ")
        link.sendall(b"\x81\x84\x00\x00\x00\x00pour")
        deadline = time.monotonic() + DEADLINE_S  # unanswered pings would end it in 50 s
        assert server.line() == "poured"
        assert server.line() == "gone with 1006"
        assert time.monotonic() < deadline
