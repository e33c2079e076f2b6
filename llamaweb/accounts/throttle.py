"""How often somebody may try: moving windows in Redis, shared by all web processes.

Synchronous on purpose: login and key look-up run in a thread anyway, and one hop into it is
cheaper than two round trips on the event loop. When Redis can't be reached the answer is
`UnavailableError`: guessing must not become free.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import ipaddress
import time
from collections.abc import Iterator

import redis.exceptions
from django.conf import settings
from limits import RateLimitItemPerMinute
from limits.storage import RedisStorage
from limits.strategies import MovingWindowRateLimiter

from llamaweb.lib.errors import BusyError, UnavailableError
from llamaweb.service_urls import limits_url

TIMEOUT_S = 5.0
WINDOW_S = 60.0
IPV6_PREFIX_BITS = 64
WRONG_SETUP_LINKS = 20  # a minute and address
LOGIN_MESSAGE = "too many failed logins; try again later"


def _storage() -> RedisStorage:
    return _storage_at(settings.REDIS_URL, settings.REDIS_PREFIX)


@functools.lru_cache(maxsize=1)
def _storage_at(redis_url: str, prefix: str) -> RedisStorage:
    return RedisStorage(
        limits_url(redis_url),
        key_prefix=f"{prefix}limits",
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
    )


def _limiter() -> MovingWindowRateLimiter:
    return MovingWindowRateLimiter(_storage())


@contextlib.contextmanager
def _redis_needed() -> Iterator[None]:
    try:
        yield
    except redis.exceptions.RedisError as error:
        raise UnavailableError("the server's Redis can't be reached; try again") from error


def network(address: str) -> str:
    """What one caller holds of the address space: an IPv4 address, an IPv6 /64."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), IPV6_PREFIX_BITS), strict=False))


class Throttle:
    """`per_minute` acts of one kind for one subject; 0: no limit.

    `take` counts and refuses in one step, so that acts side by side can't pass together. All
    methods raise UnavailableError when Redis can't be reached.
    """

    def __init__(self, kind: str, per_minute: int, message: str) -> None:
        self.kind = kind
        self.message = message
        self.item = RateLimitItemPerMinute(per_minute) if per_minute else None

    def take(self, *subject: str) -> None:
        """Count one act or raise BusyError."""
        if self.item is None:
            return
        with _redis_needed():
            is_free = _limiter().hit(self.item, *self._key(subject))
        if not is_free:
            raise self._busy(subject)

    def give_back(self, *subject: str) -> None:
        """Undo one `take`: the act turned out not to be of the kind that is counted."""
        if self.item is None:
            return
        with _redis_needed():
            # A window is a list of times, the newest first.
            _storage().storage.lpop(_storage().prefixed_key(self.item.key_for(*self._key(subject))))

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
    """Wrong API keys from one `network`."""
    message = "too many requests with an invalid API key from this address"
    return Throttle("failed_keys", settings.FAILED_KEY_RATE, message)


def failed_logins() -> Throttle:
    """Wrong passwords from one `network` for one user name."""
    return Throttle("login_rate", settings.LOGIN_RATE, LOGIN_MESSAGE)


def failed_logins_of_address() -> Throttle:
    """Wrong passwords from one `network`, whatever the user name."""
    return Throttle("login_address_rate", settings.LOGIN_ADDRESS_RATE, LOGIN_MESSAGE)


def wrong_setup_links() -> Throttle:
    """Dead or made-up setup links from one `network`."""
    return Throttle("setup_links", WRONG_SETUP_LINKS, "too many wrong links; try again later")
