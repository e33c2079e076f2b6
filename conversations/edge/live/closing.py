"""Why the server ends a live connection: one table from errors to WebSocket close codes.

4401 is also how a changed password or session looks: a client asks `GET me` and, if that answers,
connects again.
"""

from __future__ import annotations

from enum import IntEnum

from llamaweb.lib.errors import (
    AuthenticationError,
    BusyError,
    DeadlineError,
    ForbiddenError,
    InvalidError,
    LlamawebError,
    NotFoundError,
    UnavailableError,
)


class CloseCode(IntEnum):
    """What a client sees; docs/live.md says what it does then."""

    TOO_LARGE = 1009
    FAILED = 1011
    RESTART = 1012
    BAD = 4400
    SIGNED_OUT = 4401
    ORIGIN = 4403
    NOT_FOUND = 4404
    TOO_SLOW = 4408
    TOO_MANY = 4429


class FrameTooLargeError(InvalidError):
    """A client's frame is larger than the bound."""


# The first class that fits decides, so subclasses stand before their base.
CODES: tuple[tuple[type[Exception], CloseCode], ...] = (
    (FrameTooLargeError, CloseCode.TOO_LARGE),
    (InvalidError, CloseCode.BAD),
    (AuthenticationError, CloseCode.SIGNED_OUT),
    (ForbiddenError, CloseCode.ORIGIN),
    (NotFoundError, CloseCode.NOT_FOUND),
    (DeadlineError, CloseCode.TOO_SLOW),
    (BusyError, CloseCode.TOO_MANY),
    (UnavailableError, CloseCode.RESTART),
    (LlamawebError, CloseCode.FAILED),
)


def close_code_for(error: Exception) -> CloseCode:
    """The close code of a connection that `error` ends; what nobody expected is 1011."""
    return next((code for kind, code in CODES if isinstance(error, kind)), CloseCode.FAILED)
