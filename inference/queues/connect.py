"""Redis clients from an address, with time-outs that fit what the queue does with them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialBackoff
from redis.exceptions import (
    BusyLoadingError,
    ConnectionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
)
from redis.retry import Retry

from llamaweb.lib.errors import UnavailableError

LONGEST_BLOCK_S: Final = 4.0  # the longest blocking read anybody asks for
SOCKET_TIMEOUT_S: Final = 6.0  # must exceed LONGEST_BLOCK_S, or every quiet read breaks
CONNECT_TIMEOUT_S: Final = 2.0
RETRIES: Final = 2  # a restart shows as UnavailableError soon; who must survive it tries again
BACKOFF_BASE_S: Final = 0.05
BACKOFF_CAP_S: Final = 0.5
# First words of error replies by which a server says that it can't serve now, whoever asks: a full
# disk or a failed save, a script that runs too long, too few replicas, a start, a failover.
NOT_NOW: Final = frozenset(
    {"BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "TRYAGAIN"}
)


def _options(url: str) -> dict[str, Any]:
    options: dict[str, Any] = {"socket_timeout": SOCKET_TIMEOUT_S, "decode_responses": False}
    if not url.startswith("unix:"):
        options["socket_connect_timeout"] = CONNECT_TIMEOUT_S
        options["socket_keepalive"] = True
    return options


def sync_client(url: str) -> redis.Redis:
    """A blocking client for `unix://PATH?db=N`, `redis://…` or `rediss://…`; connects when used."""
    retry = Retry(ExponentialBackoff(cap=BACKOFF_CAP_S, base=BACKOFF_BASE_S), RETRIES)
    client: redis.Redis = redis.Redis.from_url(url, retry=retry, **_options(url))
    return client


def async_client(url: str) -> redis.asyncio.Redis:
    """The same for asyncio; belongs to the event loop that first uses it, close with `aclose`.

    It has no socket time-out of its own, so calls go inside `reachable`: redis-py sends through
    `asyncio.wait_for`, which in Python 3.11 loses a cancellation that comes as the send ends, and
    a reader whose client has left would go on for ever.
    """
    retry = AsyncRetry(ExponentialBackoff(cap=BACKOFF_CAP_S, base=BACKOFF_BASE_S), RETRIES)
    options = {**_options(url), "socket_timeout": None, "socket_connect_timeout": CONNECT_TIMEOUT_S}
    client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(url, retry=retry, **options)
    return client


@contextlib.contextmanager
def unavailable() -> Iterator[None]:
    """Turn "the server can't be reached, or can't serve now" into UnavailableError."""
    try:
        yield
    except (ConnectionError, TimeoutError, BusyLoadingError, OSError) as error:
        raise UnavailableError("the queue server can't be reached") from error
    except (OutOfMemoryError, ReadOnlyError) as error:
        raise UnavailableError("the queue server can't be written to") from error
    except ResponseError as error:
        if _code(error) not in NOT_NOW:
            raise
        raise UnavailableError("the queue server can't serve now") from error


def _code(error: ResponseError) -> str:
    """First word of an error reply; redis-py cuts it off the text of those it has a class for."""
    return str(error.status_code or str(error).partition(" ")[0])


@contextlib.asynccontextmanager
async def reachable(timeout_s: float = SOCKET_TIMEOUT_S) -> AsyncIterator[None]:
    """`unavailable` with a time-out, for calls of an asyncio client."""
    with unavailable():
        async with asyncio.timeout(timeout_s):
            yield
