"""How often somebody may try: moving windows in Redis, shared by all web processes.

The async limiter is for the API, the sync one for Django's login. When Redis can't be reached the
answer is `UnavailableError`: guessing must not become free.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import time
import weakref
from typing import Any

import redis.exceptions
from django.conf import settings
from limits import RateLimitItemPerMinute, aio
from limits.aio.strategies import MovingWindowRateLimiter as AsyncLimiter
from limits.storage import RedisStorage
from limits.strategies import MovingWindowRateLimiter

from llamaweb.lib.errors import BusyError, UnavailableError
from llamaweb.service_urls import limits_url

TIMEOUT_S = 5.0
_UNREACHABLE = "the server's Redis can't be reached; try again"


def _options() -> dict[str, Any]:
    return {
        "key_prefix": f"{settings.REDIS_PREFIX}limits",
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": TIMEOUT_S,
    }


@functools.cache
def _sync_limiter() -> MovingWindowRateLimiter:
    url = limits_url(settings.REDIS_URL).removeprefix("async+")
    return MovingWindowRateLimiter(RedisStorage(url, **_options()))


_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncLimiter] = (
    weakref.WeakKeyDictionary()
)


def _async_limiter() -> AsyncLimiter:
    """Connections belong to the event loop that opened them."""
    loop = asyncio.get_running_loop()
    limiter = _by_loop.get(loop)
    if limiter is None:
        storage = aio.storage.RedisStorage(
            limits_url(settings.REDIS_URL), implementation="redispy", **_options()
        )
        limiter = _by_loop[loop] = AsyncLimiter(storage)
    return limiter


class Throttle:
    """`per_minute` acts of one kind for one subject; 0: no limit.

    `check` refuses without counting, `hit` counts, `take` does both at once.
    """

    def __init__(self, kind: str, per_minute: int, message: str) -> None:
        self.kind = kind
        self.message = message
        self.item = RateLimitItemPerMinute(per_minute) if per_minute else None

    async def acheck(self, *subject: str) -> None:
        """Raises BusyError when the limit is reached."""
        if self.item is not None:
            limiter, key = _async_limiter(), self._key(subject)
            try:
                if not await limiter.test(self.item, *key):
                    stats = await limiter.get_window_stats(self.item, *key)
                    raise self._busy(stats.reset_time)
            except redis.exceptions.RedisError as error:
                raise UnavailableError(_UNREACHABLE) from error

    async def ahit(self, *subject: str) -> None:
        """Counts one act."""
        if self.item is not None:
            try:
                await _async_limiter().hit(self.item, *self._key(subject))
            except redis.exceptions.RedisError as error:
                raise UnavailableError(_UNREACHABLE) from error

    async def atake(self, *subject: str) -> None:
        """Counts one act or raises BusyError."""
        if self.item is not None:
            limiter, key = _async_limiter(), self._key(subject)
            try:
                if not await limiter.hit(self.item, *key):
                    stats = await limiter.get_window_stats(self.item, *key)
                    raise self._busy(stats.reset_time)
            except redis.exceptions.RedisError as error:
                raise UnavailableError(_UNREACHABLE) from error

    def check(self, *subject: str) -> None:
        """Raises BusyError when the limit is reached."""
        if self.item is not None:
            limiter, key = _sync_limiter(), self._key(subject)
            try:
                if not limiter.test(self.item, *key):
                    raise self._busy(limiter.get_window_stats(self.item, *key).reset_time)
            except redis.exceptions.RedisError as error:
                raise UnavailableError(_UNREACHABLE) from error

    def hit(self, *subject: str) -> None:
        """Counts one act."""
        if self.item is not None:
            try:
                _sync_limiter().hit(self.item, *self._key(subject))
            except redis.exceptions.RedisError as error:
                raise UnavailableError(_UNREACHABLE) from error

    def _key(self, subject: tuple[str, ...]) -> tuple[str, str]:
        """Hashed, so that a key has a bounded length and tells nothing."""
        joined = "\0".join(subject).encode("utf-8", "surrogatepass")
        return self.kind, hashlib.sha256(joined).hexdigest()[:32]

    def _busy(self, reset_at: float) -> BusyError:
        wait_s = min(60.0, max(1.0, reset_at - time.time()))
        return BusyError(self.message, reason=self.kind, retry_after_s=wait_s)


def failed_keys() -> Throttle:
    """Wrong API keys from one address."""
    message = "too many requests with an invalid API key from this address"
    return Throttle("failed_keys", settings.FAILED_KEY_RATE, message)


def key_requests() -> Throttle:
    """Requests with one key."""
    return Throttle("key_rate", settings.KEY_RATE, "too many requests with this API key")


def failed_logins() -> Throttle:
    """Wrong passwords for one address and user name."""
    return Throttle("login_rate", settings.LOGIN_RATE, "too many failed logins; try again later")
