"""What a person wrote stays where it belongs: not in logs, jobs, metrics or other keys of Redis."""

from __future__ import annotations

import json
import secrets
import urllib.error
import urllib.request

import pytest

from inference.queues.connect import sync_client
from tests.faults import schedule
from tests.faults.conftest import embedded_redis_url
from tests.stack import Stack, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

REDIS_WAIT_S = 20


def post(stack: Stack, key: str, body: bytes) -> tuple[int, bytes]:
    request = urllib.request.Request(
        f"{stack.base_url}/v1/chat/completions",
        data=body,
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def where(stack: Stack, canary: str) -> list[str]:
    """Files of the instance that hold it, but for the database and Redis' own file."""
    found = []
    for path in stack.data_dir.rglob("*"):
        if not path.is_file() or path.name.startswith("db.sqlite3") or "redis" in path.parts[-3:]:
            continue
        if canary.encode() in path.read_bytes():
            found.append(str(path))
    return found


def in_redis(stack: Stack, canary: str) -> list[str]:
    """Keys of Redis whose value holds it."""
    client = sync_client(embedded_redis_url(stack))
    needle, found = canary.encode(), []
    for key in client.scan_iter(count=1000):
        dump = client.dump(key) or b""
        text = {
            b"hash": lambda k=key: str(client.hgetall(k)),
            b"stream": lambda k=key: str(client.xrange(k)),
            b"list": lambda k=key: str(client.lrange(k, 0, -1)),
            b"set": lambda k=key: str(client.smembers(k)),
            b"zset": lambda k=key: str(client.zrange(k, 0, -1)),
            b"string": lambda k=key: str(client.get(k)),
        }[client.type(key)]()
        if needle in dump or canary in text or needle in key:
            found.append(key.decode())
    return found


def test_no_prompt_text_outside_its_own_log(stack: Stack) -> None:
    key, canary = stack.create_key(), f"canary{secrets.token_hex(8)}"
    message = {"role": "user", "content": f"before {canary} after"}
    # An answer, a refusal of each kind, and an owned generation with its jobs.
    assert post(stack, key, json.dumps({"messages": [message]}).encode())[0] == 200
    assert post(stack, key, json.dumps({"messages": [message], "n": canary}).encode())[0] == 400
    assert post(stack, key, f'{{"messages": ["{canary}'.encode())[0] == 400
    too_long = {"messages": [{"role": "user", "content": canary * 3000}]}
    assert post(stack, key, json.dumps(too_long).encode())[0] == 400
    (row,) = schedule.end(schedule.begin(stack, [f"{canary} kept"]))
    assert row["stored"] == f"{canary} kept"

    assert where(stack, canary) == []
    assert canary not in stack.output
    logs = [name for name in in_redis(stack, canary) if ":s:" not in name]
    assert logs == []
    # The logs that hold it are the answers' own, and they end by themselves.
    client = sync_client(embedded_redis_url(stack))
    wait_for(
        "every log with the text has an end",
        lambda: all(client.ttl(name) > 0 for name in in_redis(stack, canary)),
        REDIS_WAIT_S,
    )
    assert all(client.ttl(name) <= 300 for name in in_redis(stack, canary))
