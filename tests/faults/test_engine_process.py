"""What an engine process is given, and what it may not do."""

from __future__ import annotations

import resource
import socket
from pathlib import Path

import psutil
import pytest
import redis

from inference.queues.connect import sync_client
from tests.faults.conftest import embedded_redis_url
from tests.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

KEPT = ("PATH", "LANG", "LC_", "HOME", "LD_LIBRARY", "CUDA", "OMP", "GOMP", "GGML", "KMP")
KEPT += ("OPENBLAS", "PYTHON", "SSL_CERT_")


def test_it_inherits_no_settings_and_no_secrets(stack: Stack) -> None:
    engine = stack.wait_process("engine")
    environment = engine.environ()
    assert [name for name in environment if not name.startswith(KEPT)] == []
    secrets = [path.read_text() for path in (stack.data_dir / "keys").iterdir()]
    assert secrets
    everything = str(environment) + str(engine.cmdline())
    assert not any(secret in everything for secret in secrets)


def test_it_dumps_no_core_and_gains_no_privileges(stack: Stack) -> None:
    engine = stack.wait_process("engine")
    assert engine.rlimit(psutil.RLIMIT_CORE) == (0, 0)
    assert engine.rlimit(psutil.RLIMIT_NOFILE)[1] <= 1024 != resource.RLIM_INFINITY
    assert "NoNewPrivs:\t1" in Path(f"/proc/{engine.pid}/status").read_text()


def test_it_holds_no_inet_socket_and_no_database(stack: Stack) -> None:
    engine = stack.wait_process("engine")
    families = {connection.family for connection in engine.net_connections(kind="all")}
    assert families <= {socket.AF_UNIX}
    assert not any("db.sqlite3" in file.path for file in engine.open_files())


def test_its_redis_user_sees_only_its_model(stack: Stack) -> None:
    client = sync_client(embedded_redis_url(stack))
    names = [name for name in client.acl_users() if "engine:" in str(name)]
    assert len(names) == 1
    user = names[0].decode() if isinstance(names[0], bytes) else names[0]
    allowed = client.execute_command("ACL", "DRYRUN", user, "GET", "llamaweb:{mock}:meta")
    assert allowed == b"OK"
    for command in (
        ("GET", "llamaweb:{other}:meta"),
        ("LRANGE", "llamaweb:celery:turns", "0", "-1"),
        ("FLUSHALL",),
        ("CONFIG", "GET", "*"),
        ("ACL", "LIST"),
    ):
        try:
            answer = client.execute_command("ACL", "DRYRUN", user, *command)
        except redis.ResponseError:
            continue
        assert answer != b"OK", command
