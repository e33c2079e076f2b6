"""One Redis address, reached by every client; the database's settings."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async
from channels_redis.core import RedisChannelLayer
from django.conf import settings
from django.core.cache import cache
from django.db import connection
from redis import Redis

from llamaweb.celery import app
from llamaweb.service_urls import celery_url, database_config, limits_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h:1/2", "redis://h:1/2"),
        ("unix:///run/r.sock", "redis+socket:///run/r.sock?virtual_host=0"),
        ("unix://:p%40@/run/r.sock?db=3", "redis+socket://:p%40@/run/r.sock?virtual_host=3"),
    ],
)
def test_celery(url: str, expected: str) -> None:
    assert celery_url(url) == expected


def test_limits() -> None:
    assert limits_url("redis://h:1/2") == "redis://h:1/2"
    assert limits_url("unix://:p@/r.sock") == "redis+unix://:p@/r.sock"


def test_celery_reaches_the_server_and_sends_json_with_our_prefix(redis_server: str) -> None:
    with app.connection_for_write() as link:
        link.ensure_connection(max_retries=1, timeout=5)
        app.send_task("tests.nothing", args=["id"], queue="turns", connection=link)
    with Redis.from_url(redis_server, decode_responses=True) as client:
        key = f"{settings.REDIS_PREFIX}celery:turns"
        message = client.lpop(key)
        assert message is not None
        assert '"content-type": "application/json"' in message
        client.delete(key)


async def test_the_channel_layer_reaches_it_too() -> None:
    layer = RedisChannelLayer(**settings.CHANNEL_LAYERS["default"]["CONFIG"])
    channel = await layer.new_channel()
    await layer.send(channel, {"type": "hello", "n": 1})
    assert await layer.receive(channel) == {"type": "hello", "n": 1}
    await layer.close_pools()


@pytest.mark.django_db(transaction=True)
async def test_sqlite_waits_for_writers_and_logs_ahead() -> None:
    def pragma(name: str) -> object:
        with connection.cursor() as cursor:
            return cursor.execute(f"PRAGMA {name}").fetchone()[0]

    assert await sync_to_async(pragma)("journal_mode") == "wal"
    assert await sync_to_async(pragma)("busy_timeout") == 20_000
    assert await sync_to_async(pragma)("foreign_keys") == 1


def test_postgres_gets_a_pool_beside_what_the_address_says() -> None:
    config = database_config("postgresql://u:p@/name?host=/run/pg", pool_size=7)
    options = config["OPTIONS"]
    assert isinstance(options, dict)
    assert options["pool"] == {"min_size": 1, "max_size": 7, "timeout": 10.0}
    assert config["HOST"] == "/run/pg" or options["host"] == "/run/pg"
    assert config["CONN_MAX_AGE"] == 0


def test_the_cache_speaks_json_only(redis_server: str) -> None:
    cache.set("json-only", {"b": [1, None, "ä"]})
    assert cache.get("json-only") == {"b": [1, None, "ä"]}
    cache.set("n", 1)
    assert cache.incr("n") == 2
    with pytest.raises(TypeError):
        cache.set("object", object())
    with Redis.from_url(redis_server) as client:
        raw = next(iter(client.scan_iter(match=f"{settings.REDIS_PREFIX}cache*json-only")))
        assert client.get(raw) == b'{"b": [1, null, "\\u00e4"]}'


def test_clearing_the_cache_leaves_everything_else(redis_server: str) -> None:
    with Redis.from_url(redis_server) as client:
        client.set(f"{settings.REDIS_PREFIX}queue", "kept")
        cache.set("a", 1)
        cache.clear()
        assert cache.get("a") is None
        assert client.get(f"{settings.REDIS_PREFIX}queue") == b"kept"
