"""Why requests are turned away, as metrics count it: names from here, never a caller's text."""

from __future__ import annotations

from typing import Final

from inference.edge.families import family_of
from inference.edge.instruments import count_rejected
from llamaweb.lib.errors import (
    AuthenticationError,
    BusyError,
    DeadlineError,
    ForbiddenError,
    InvalidError,
    LlamawebError,
    NotFoundError,
    NotSupportedError,
    TooLongError,
    UnavailableError,
)

BODY_BOUND: Final = "body"
DEPTH_BOUND: Final = "depth"
TOO_DEEP: Final = "too_deep"  # pydantic's type of what `refuse_deep` finds
# The first class that fits decides.
_REASONS: Final[tuple[tuple[type[LlamawebError], str], ...]] = (
    (TooLongError, "too_long"),
    (InvalidError, "invalid"),
    (AuthenticationError, "unauthenticated"),
    (ForbiddenError, "forbidden"),
    (NotFoundError, "not_found"),
    (NotSupportedError, "not_supported"),
    (UnavailableError, "unavailable"),
    (DeadlineError, "deadline"),
    (LlamawebError, "failed"),
)


def reason_of(error: LlamawebError) -> str:
    """The bound's name, or what is wrong in another way."""
    if isinstance(error, BusyError):
        return error.reason
    if isinstance(error, InvalidError) and error.bound:
        return error.bound
    return next(reason for cls, reason in _REASONS if isinstance(error, cls))


def note_rejection(path: str, error: LlamawebError) -> None:
    """Count `error`, the answer to a request for `path`, unless a generation had begun."""
    if not error.is_end:
        count_rejected(family_of(path), reason_of(error))
