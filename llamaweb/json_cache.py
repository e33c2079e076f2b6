"""Django's Redis cache without pickle: whoever can write to Redis must not run code here."""

from __future__ import annotations

import json
from typing import Any

from django.core.cache.backends.redis import RedisCache, RedisCacheClient

SCAN_COUNT = 500


class JsonSerializer:
    """Values that JSON can hold; integers stay bare so that `incr` is atomic."""

    def dumps(self, value: Any) -> str | int:
        """Text of `value`; TypeError for anything JSON doesn't know."""
        return value if type(value) is int else json.dumps(value, allow_nan=False)

    def loads(self, data: bytes) -> Any:
        """The value in `data`."""
        return json.loads(data)


class _Client(RedisCacheClient):
    """Clears its own keys only: the server also holds queues and streams."""

    prefix = ""

    def clear(self) -> bool:
        client = self.get_client(None, write=True)
        for key in client.scan_iter(match=f"{self.prefix}*", count=SCAN_COUNT):
            client.delete(key)
        return True


class JsonRedisCache(RedisCache):
    """`django.core.cache.backends.redis.RedisCache` with JSON values and a modest `clear`."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._options = {**params.get("OPTIONS", {}), "serializer": JsonSerializer()}
        self._class = type("_PrefixClient", (_Client,), {"prefix": params["KEY_PREFIX"]})
