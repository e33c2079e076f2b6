"""How often somebody may try: moving windows in Redis, shared by all web processes.

Synchronous on purpose: login and key look-up run in a thread anyway, and one hop into it is
cheaper than two round trips on the event loop. When Redis can't be reached the answer is
`UnavailableError`: guessing must not become free.
"""

from __future__ import annotations

import functools
import hashlib
import time

import redis.exceptions
from django.conf import settings
from limits import RateLimitItemPerMinute
from limits.storage import RedisStorage
from limits.strategies import MovingWindowRateLimiter

from llamaweb.lib.errors import BusyError, UnavailableError
from llamaweb.service_urls import limits_url

TIMEOUT_S = 5.0
WINDOW_S = 60.0


@functools.cache
def _limiter() -> MovingWindowRateLimiter:
    storage = RedisStorage(
        limits_url(settings.REDIS_URL),
        key_prefix=f"{settings.REDIS_PREFIX}limits",
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
    )
    return MovingWindowRateLimiter(storage)


class Throttle:
    """`per_minute` acts of one kind for one subject; 0: no limit.

    `check` refuses without counting, `hit` counts, `take` does both at once. All raise
    UnavailableError when Redis can't be reached.
    """

    def __init__(self, kind: str, per_minute: int, message: str) -> None:
        self.kind = kind
        self.message = message
        self.item = RateLimitItemPerMinute(per_minute) if per_minute else None

    def check(self, *subject: str) -> None:
        """Raises BusyError when the limit is reached."""
        if not self._ask("test", subject):
            raise self._busy(subject)

    def hit(self, *subject: str) -> None:
        """Counts one act."""
        self._ask("hit", subject)

    def take(self, *subject: str) -> None:
        """Counts one act or raises BusyError."""
        if not self._ask("hit", subject):
            raise self._busy(subject)

    def _ask(self, operation: str, subject: tuple[str, ...]) -> bool:
        if self.item is None:
            return True
        try:
            return bool(getattr(_limiter(), operation)(self.item, *self._key(subject)))
        except redis.exceptions.RedisError as error:
            raise UnavailableError("the server's Redis can't be reached; try again") from error

    def _key(self, subject: tuple[str, ...]) -> tuple[str, str]:
        """Hashed, so that a key has a bounded length and tells nothing."""
        joined = "\0".join(subject).encode("utf-8", "surrogatepass")
        return self.kind, hashlib.sha256(joined).hexdigest()[:32]

    def _busy(self, subject: tuple[str, ...]) -> BusyError:
        assert self.item is not None
        try:
            reset_at = _limiter().get_window_stats(self.item, *self._key(subject)).reset_time
        except redis.exceptions.RedisError:
            reset_at = time.time() + WINDOW_S
        wait_s = min(WINDOW_S, max(1.0, reset_at - time.time()))
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
