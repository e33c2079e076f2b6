"""The whole web process: two of them on one socket, with the real application.

Case P13's large and deep bodies, the health that stays answerable meanwhile, WebSocket addresses.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from llamaweb.data_dir import DataDir
from tests.servers import valkey

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0
QUICK_S = 20.0
MIB = 1024 * 1024
SET_UP = """
import django; django.setup()
from django.core.management import call_command
from llamaweb.accounts.models import User
call_command("migrate", verbosity=0, interactive=False)
User.objects.create_user("alice")
call_command("create_api_key", "alice", name="test")
"""

pytestmark = pytest.mark.stack


@dataclass
class Web:
    """Two processes behind one address."""

    port: int
    key: str
    processes: list[subprocess.Popen[bytes]]

    def client(self) -> httpx2.Client:
        """With alice's key."""
        return httpx2.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=DEADLINE_S,
        )


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    data_dir = DataDir(tmp_path_factory.mktemp("web") / "data")
    data_dir.prepare()
    env = {name: value for name, value in os.environ.items() if not name.startswith("LLAMAWEB_")}
    env |= {"LLAMAWEB_DATA_DIR": str(data_dir.root), "DJANGO_SETTINGS_MODULE": "llamaweb.settings"}
    place, password = data_dir.prepare_redis_socket(), data_dir.key("redis_password")
    with (
        valkey(data_dir.run, unix_socket=place, password=password),
        socket.create_server(("127.0.0.1", 0)) as listening,
        contextlib.ExitStack() as stack,
    ):
        set_up = subprocess.run(
            [sys.executable, "-c", SET_UP],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        key = set_up.stdout.splitlines()[-1]
        found = Web(listening.getsockname()[1], key, [])
        for _ in range(2):
            process = subprocess.Popen(
                [sys.executable, "-m", "llamaweb.run.web", "--fd", "0"],
                cwd=ROOT,
                env=env,
                stdin=listening.fileno(),
            )
            stack.callback(process.wait, DEADLINE_S)
            stack.callback(process.kill)
            found.processes.append(process)
        _wait_until_served(found)
        yield found


def _wait_until_served(web: Web) -> None:
    """The socket listens from the start, so the first answer may take as long as a boot."""
    with web.client() as client:
        assert client.get("/health").status_code == 503


def test_health_says_why(web: Web) -> None:
    with web.client() as client:
        for path in ("/health", "/v1/health"):
            response = client.get(path)
            assert response.status_code == 503
            error = response.json()["error"]
            assert (error["message"], error["code"]) == ("Loading model", 503)
            assert error["reason"]
        assert response.headers["Server"] == "llamaweb"


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages": null}',
        b'{"messages": {}}',
        b'{"messages": "x"}',
        b'{"messages": [null]}',
        b'{"messages": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b'{"messages": [{"role": "user", "content": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
        b'{"messages": ["' + b"x" * (9 * MIB),
    ],
    ids=["null", "object", "text", "null in list", "deep lists", "deep objects", "9 MiB cut"],
)
def test_bad_bodies_are_refused_quickly(web: Web, body: bytes) -> None:
    started = time.monotonic()
    with web.client() as client:
        response = client.post("/v1/chat/completions", content=body)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert time.monotonic() - started < QUICK_S


def test_ten_megabytes_are_too_many(web: Web) -> None:
    with web.client() as client:
        response = client.post("/v1/chat/completions", content=b"x" * (10 * MIB + 1))
        assert response.status_code == 413
        assert response.json()["error"]["max_body_bytes"] == 10 * MIB
        chunks = (b"x" * MIB for _ in range(11))
        assert client.post("/v1/chat/completions", content=chunks).status_code == 413
        assert client.get("/health").status_code == 503


def test_both_processes_accept(web: Web) -> None:
    """With one of them stopped, everything still works: the other one takes it."""
    for process in web.processes:
        process.send_signal(signal.SIGSTOP)
        try:
            # The stopped one can't accept: only a connection that it had accepted would hang.
            with web.client() as client:
                assert client.get("/health").status_code == 503
        finally:
            process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("origin", ["http://127.0.0.1", "http://evil.example"])
def test_websocket_addresses_nobody_serves_are_refused(web: Web, origin: str) -> None:
    with web.client() as client:
        response = client.get(
            "/ws/nothing",
            headers={
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
                "Sec-WebSocket-Version": "13",
                "Origin": origin,
            },
        )
    assert response.status_code == 403


def test_static_files_are_served(web: Web) -> None:
    with web.client() as client:
        response = client.get("/static/admin/css/base.css")
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/css")


def test_an_api_key_is_no_metrics_token(web: Web) -> None:
    with web.client() as client:
        assert client.get("/metrics").status_code == 401
