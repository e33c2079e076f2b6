"""Child processes, and messages over their pipes, both ways: 4 bytes of length (big-endian), then
that much JSON."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

MAX_MESSAGE_BYTES = 128 * 1024 * 1024
ROOT = Path(__file__).resolve().parents[2]  # where a child finds this package
_HEAD_LEN = 4


class ChildDiedError(Exception):
    """The pipe ended in the middle of a job."""


# --- the parent


def start(module: str, **more: str) -> subprocess.Popen[bytes]:
    """A child that runs `module`. No secrets are in its variables, to which `more` come."""
    return subprocess.Popen(
        [sys.executable, "-P", "-s", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LC_ALL": "C.UTF-8",
            **more,
        },
        cwd="/",
        close_fds=True,
        bufsize=0,
    )


def end(child: subprocess.Popen[bytes]) -> None:
    """Kill it, if it lives, and wait for it."""
    child.kill()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    child.wait()


def send(pipe: IO[bytes] | None, body: bytes, timeout_s: float) -> None:
    """Write a message, whose JSON is `body`.

    Raises:
        TimeoutError: the child didn't read it.
        ChildDiedError: it is gone.
    """
    assert pipe is not None
    data = memoryview(len(body).to_bytes(_HEAD_LEN, "big") + body)
    ends_ts = time.monotonic() + timeout_s
    os.set_blocking(pipe.fileno(), False)
    while data:
        _wait(pipe, write=True, ends_ts=ends_ts)
        try:
            data = data[os.write(pipe.fileno(), data) :]
        except BlockingIOError:
            continue
        except OSError as error:
            raise ChildDiedError from error


def receive(pipe: IO[bytes] | None, timeout_s: float) -> dict[str, Any]:
    """The child's next message; raises as `send`."""
    assert pipe is not None
    ends_ts = time.monotonic() + timeout_s
    body_len = int.from_bytes(_read(pipe, _HEAD_LEN, ends_ts), "big")
    if body_len > MAX_MESSAGE_BYTES:
        raise ChildDiedError
    answer = json.loads(_read(pipe, body_len, ends_ts))
    assert isinstance(answer, dict)
    return answer


def _read(pipe: IO[bytes], num_bytes: int, ends_ts: float) -> bytes:
    pieces: list[bytes] = []
    while num_bytes:
        _wait(pipe, write=False, ends_ts=ends_ts)
        piece = os.read(pipe.fileno(), min(num_bytes, 1 << 20))
        if not piece:
            raise ChildDiedError
        num_bytes -= len(piece)
        pieces.append(piece)
    return b"".join(pieces)


def _wait(pipe: IO[bytes], *, write: bool, ends_ts: float) -> None:
    poller = select.poll()  # select() would fail above 1,024 open files
    poller.register(pipe.fileno(), select.POLLOUT if write else select.POLLIN)
    if not poller.poll(max(0.0, ends_ts - time.monotonic()) * 1000):
        raise TimeoutError


# --- the child


def next_message() -> dict[str, Any] | None:
    """What the parent says next; None: it is gone."""
    head = _read_exactly(_HEAD_LEN)
    body = head and _read_exactly(int.from_bytes(head, "big"))
    if not body:
        return None
    message = json.loads(body)
    assert isinstance(message, dict)
    return message


def answer(message: dict[str, Any]) -> None:
    """Say `message` to the parent."""
    body = json.dumps(message).encode()
    sys.stdout.buffer.write(len(body).to_bytes(_HEAD_LEN, "big") + body)
    sys.stdout.buffer.flush()


def _read_exactly(num_bytes: int) -> bytes:
    data = sys.stdin.buffer.read(num_bytes)
    return data if len(data) == num_bytes else b""
