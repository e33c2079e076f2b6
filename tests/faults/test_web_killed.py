"""Plain requests end with their reader: at once when it hangs up, within 5 s when its web dies."""

from __future__ import annotations

import json
import socket
import time

import pytest

from tests.faults.conftest import queue_of
from tests.stack import Stack, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

MODEL = "mock"
AFTER_KILL_S = 5.0
AFTER_HANGUP_S = 1.0
LOOK_S = 0.02


def stream(stack: Stack, key: str, text: str) -> socket.socket:
    """An open streamed chat whose first bytes have come."""
    body = json.dumps({"stream": True, "messages": [{"role": "user", "content": text}]}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{stack.port}\r\n"
        f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", stack.port), timeout=20)
    connection.sendall(head.encode() + body)
    assert b" 200 " in connection.recv(4096)[:20]
    return connection


def test_a_killed_web_process_frees_its_slots(stack: Stack) -> None:
    queue, key = queue_of(stack), stack.create_key()
    connections = [stream(stack, key, "x" * 5000) for _ in range(2)]
    wait_for("both run", lambda: queue.load(MODEL).running == 2, 20)
    web = stack.kill("web")
    killed_ts = time.monotonic()
    wait_for("free slots", lambda: queue.load(MODEL).running == 0, AFTER_KILL_S + 5, LOOK_S)
    took_s = time.monotonic() - killed_ts
    for connection in connections:
        connection.close()
    stack.wait_replaced("web", web)
    stack.wait_ready()
    assert took_s <= AFTER_KILL_S


def test_a_client_that_hangs_up_frees_its_slot(stack: Stack) -> None:
    queue, key = queue_of(stack), stack.create_key()
    connection = stream(stack, key, "x" * 5000)
    wait_for("it runs", lambda: queue.load(MODEL).running == 1, 20)
    connection.close()
    closed_ts = time.monotonic()
    wait_for("a free slot", lambda: queue.load(MODEL).running == 0, 10, LOOK_S)
    assert time.monotonic() - closed_ts <= AFTER_HANGUP_S
