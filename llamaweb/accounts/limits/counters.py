"""The counters in Redis; all of it blocks, so it is called in a thread.

When Redis can't be reached nobody is let through: `UnavailableError`.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import redis
from django.conf import settings
from redis.exceptions import NoScriptError, RedisError

from llamaweb.accounts.limits.bounds import Allowance, Bounds, Left
from llamaweb.lib.errors import BusyError, UnavailableError

TIMEOUT_S: Final = 5.0
HOUR_S: Final = 3600
DAY_HOURS: Final = 24
Of = Literal["user", "key"]
# Tokens that `of` used lately, by the hours since the epoch in which they did.
History = Callable[[Of], Mapping[int, int]]

_TEXT: Final = Path(__file__).with_name("limits.lua").read_text("utf-8")
_SHA: Final = hashlib.sha1(_TEXT.encode(), usedforsecurity=False).hexdigest()
_WORDS: Final = {
    "streams": "you have {most} answers being written already, the most allowed at a time",
    "user_minute": "you have used up your {most} tokens a minute",
    "user_day": "you have used up your {most} tokens a day",
    "key_minute": "this API key has used up its {most} tokens a minute",
    "key_day": "this API key has used up its {most} tokens a day",
}
REASONS: Final = {
    "streams": "concurrent_streams",
    "user_minute": "user_tokens_minute",
    "user_day": "user_tokens_day",
    "key_minute": "key_tokens_minute",
    "key_day": "key_tokens_day",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose counters: a user and one of their keys (0: none), or somebody with no key at all, by
    the network they ask from."""

    user_id: int = 0
    key_id: int = 0
    network: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """Names in Redis; one hash tag, so that the script stays legal in a cluster."""
        if self.network:
            whose = "network:" + hashlib.sha256(self.network.encode()).hexdigest()[:32]
        else:
            whose = f"user:{self.user_id}"
        base = f"{settings.REDIS_PREFIX}limits:{{{whose}}}:"
        key = f"{base}key:{self.key_id}"
        names = ("tokens", "open", "settled")
        tokens, is_open, settled = (base + name for name in names)
        return f"{key}:rate", tokens, f"{key}:tokens", is_open, settled


def offset_s() -> float:
    """Seconds added to the server's clock; tests move time with it."""
    return 0.0


def take_request(subject: Subject, bounds: Bounds, allowance: Allowance, message: str) -> None:
    """Count one request of `subject`, and tell `allowance` what is left.

    Raises:
        BusyError: it is one too many; reason "key_rate", or "address_rate" without a key.
        UnavailableError: Redis can't be reached.
    """
    allowed, left, reset_ms, wait_ms, *tokens = _run("ask", subject, bounds)
    if bounds.rate:
        allowance.requests = Left(bounds.burst, int(left), int(reset_ms) / 1000)
    allowance.tokens = _left(tokens)
    if not int(allowed):
        reason = "address_rate" if subject.network else "key_rate"
        raise BusyError(message, reason=reason, retry_after_s=int(wait_ms) / 1000)


def reserve(
    subject: Subject,
    bounds: Bounds,
    generation_id: str,
    *,
    tokens: int,
    until_at: float,
    is_answer: bool,
    history: History,
) -> Left:
    """Keep `tokens` for a generation until it is settled, or `until_at` is over; a repeat changes
    nothing. `history` is asked for when Redis has lost, or never had, the counters.

    Raises:
        BusyError: a limit is reached, reason one of `REASONS`.
        UnavailableError: Redis can't be reached.
    """
    args = (generation_id, tokens, int(until_at * 1000), "1" if is_answer else "0")
    for _ in range(2):
        verdict, wait_ms, *left = _run("reserve", subject, bounds, *args)
        name = _text(verdict)
        if name != "unknown":
            break
        _seed(subject, bounds, history)
    else:
        raise UnavailableError("the server's counters can't be read; try again")
    if name == "ok":
        return _left(left)
    message = _WORDS[name].format(most=getattr(bounds, name))
    raise BusyError(message, reason=REASONS[name], retry_after_s=int(wait_ms) / 1000)


def settle(
    subject: Subject, bounds: Bounds, generation_id: str, *, tokens: int, always: bool = False
) -> bool:
    """Count what a generation really used in place of what was kept for it; False: it was settled
    before. `always`: count it though nothing was kept for it, once in a day."""
    args = (generation_id, tokens, "1" if always else "0")
    return bool(_run("settle", subject, bounds, *args))


def _seed(subject: Subject, bounds: Bounds, history: History) -> None:
    wanted: list[Of] = ["user"] if bounds.user_minute or bounds.user_day else []
    if subject.key_id and (bounds.key_minute or bounds.key_day):
        wanted.append("key")
    for of in wanted:
        hours: Iterable[tuple[int, int]] = history(of).items()
        _run("seed", subject, bounds, of, *(number for hour in hours for number in hour))


def _left(reply: list[Any]) -> Left:
    limit, remaining, reset_ms = map(int, reply)
    return Left(limit, remaining, reset_ms / 1000)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@functools.cache
def _client(url: str) -> redis.Redis:
    client: redis.Redis = redis.Redis.from_url(
        url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
    )
    return client


def _run(act: str, subject: Subject, bounds: Bounds, *args: str | int) -> Any:
    config = json.dumps({**asdict(bounds), "key": str(subject.key_id)})
    keys = subject.keys
    given = (*keys, act, config, str(int(offset_s() * 1000)), *map(str, args))
    client = _client(settings.REDIS_URL)
    try:
        try:
            return client.evalsha(_SHA, len(keys), *given)
        except NoScriptError:
            return client.eval(_TEXT, len(keys), *given)
    except RedisError as error:
        raise UnavailableError("the server's Redis can't be reached; try again") from error
