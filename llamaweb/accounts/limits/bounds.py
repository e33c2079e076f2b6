"""What is set, and what a caller has left of it. Pure but for the settings."""

from __future__ import annotations

import math
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from django.conf import settings

ALLOWANCE_META: Final = "llamaweb.allowance"  # where a request carries its `Allowance`
HEADERS: Final = tuple(
    f"X-RateLimit-{what}-{of}"
    for of in ("Requests", "Tokens")
    for what in ("Limit", "Remaining", "Reset")
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one caller; 0 is none. `rate`: requests a minute, of which `burst` may come at
    once. `streams`: answers of a user at a time. The others are tokens, of prompts and answers."""

    rate: int = 0
    burst: int = 0
    streams: int = 0
    user_minute: int = 0
    user_day: int = 0
    key_minute: int = 0
    key_day: int = 0

    @property
    def has_tokens(self) -> bool:
        """Whether tokens are counted."""
        return bool(self.user_minute or self.user_day or self.key_minute or self.key_day)

    @property
    def has_quota(self) -> bool:
        """Whether something is reserved for every answer."""
        return self.has_tokens or bool(self.streams)


def bounds_now() -> Bounds:
    """Those of the settings."""
    return Bounds(
        rate=settings.KEY_RATE,
        burst=settings.KEY_BURST or settings.KEY_RATE,
        streams=settings.USER_STREAMS,
        user_minute=settings.USER_TOKENS_MINUTE,
        user_day=settings.USER_TOKENS_DAY,
        key_minute=settings.KEY_TOKENS_MINUTE,
        key_day=settings.KEY_TOKENS_DAY,
    )


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a limit, -1 for both where there is none, and in how many seconds all of it
    is there again."""

    limit: int = -1
    remaining: int = -1
    reset_s: float = 0.0


class Allowance:
    """What the caller of one request has left, as last seen; the answer's headers say so."""

    __slots__ = ("requests", "tokens")

    def __init__(self) -> None:
        self.requests = Left()
        self.tokens = Left()

    def headers(self) -> dict[str, str]:
        """Of the limits that are set."""
        found: dict[str, str] = {}
        for of, left in (("Requests", self.requests), ("Tokens", self.tokens)):
            if left.limit >= 0:
                found[f"X-RateLimit-Limit-{of}"] = str(left.limit)
                found[f"X-RateLimit-Remaining-{of}"] = str(left.remaining)
                found[f"X-RateLimit-Reset-{of}"] = duration(left.reset_s)
        return found


def duration(seconds: float) -> str:
    """In OpenAI's form: `17s`, `6m0s`, `23h59m0s`; upwards to whole seconds."""
    whole = math.ceil(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours}h{minutes}m{whole % 60}s"
    return f"{minutes}m{whole % 60}s" if minutes else f"{whole}s"


# Set where the caller of a request is found out; what is reserved deeper down is told to it.
allowance_here: ContextVar[Allowance | None] = ContextVar("allowance_here", default=None)
