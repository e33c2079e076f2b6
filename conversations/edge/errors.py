"""One table: which error becomes which answer of the browser app's API, by REST and live.

Services raise; only edges read this. `code` is for the program, `message` for the person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import InterfaceError, OperationalError

from conversations.edge.schemas import ErrorOut
from llamaweb.lib.errors import (
    AuthenticationError,
    BusyError,
    DeadlineError,
    FailedError,
    ForbiddenError,
    InvalidError,
    LlamawebError,
    NotFoundError,
    NotSupportedError,
    StoppedError,
    TooLongError,
    UnavailableError,
)
from llamaweb.lib.json_path import first_finding, json_path

# The first class that fits decides, so subclasses stand before their base.
STATUS_AND_CODE: tuple[tuple[type[LlamawebError], int, str], ...] = (
    (TooLongError, 400, "too_long"),
    (InvalidError, 400, "invalid"),
    (AuthenticationError, 401, "signed_out"),
    (ForbiddenError, 403, "forbidden"),
    (NotFoundError, 404, "not_found"),
    (BusyError, 429, "busy"),
    (StoppedError, 409, "failed"),
    (NotSupportedError, 501, "not_supported"),
    (UnavailableError, 503, "unavailable"),
    (DeadlineError, 504, "deadline"),
    (FailedError, 500, "failed"),
    (LlamawebError, 500, "failed"),
)
CODE_BY_STATUS = {
    400: "invalid",
    401: "signed_out",
    403: "forbidden",
    404: "not_found",
    405: "not_supported",
    413: "too_long",
    429: "busy",
    503: "unavailable",
}
# The database is away, restarts, or gave up on a lock: the same again may do.
DATABASE_AWAY: tuple[type[Exception], ...] = (OperationalError, InterfaceError)
AWAY = "the server can't reach its data at the moment; try again"
MAX_SHOWN_CHARS = 500  # of a message that somebody else's code wrote


def _row(error: LlamawebError) -> tuple[int, str]:
    return next((status, code) for cls, status, code in STATUS_AND_CODE if isinstance(error, cls))


def status_of(error: LlamawebError) -> int:
    """The HTTP status of an expected error."""
    return _row(error)[0]


def error_out(error: LlamawebError) -> ErrorOut:
    """What a client is told of an expected error."""
    return ErrorOut(
        code=_row(error)[1],
        message=error.message,
        param=error.param if isinstance(error, InvalidError) else None,
        retryable=error.retryable,
        retry_after_s=error.retry_after_s if isinstance(error, BusyError) else None,
    )


def error_for_status(status: int, message: str) -> ErrorOut:
    """What a client is told of an answer that no error of ours stands for."""
    fallback = "failed" if status >= 500 else "invalid"
    code = CODE_BY_STATUS.get(status, fallback)
    return ErrorOut(code=code, message=message, retryable=status >= 500)


def invalid_from(findings: Sequence[Mapping[str, Any]], *, skip: int = 0) -> InvalidError:
    """The first of pydantic's findings, by its JSON path; the value itself isn't told.

    `skip`: parts of the location that aren't the client's.
    """
    param, message = first_finding(findings, "invalid", lambda where: json_path(where[skip:]))
    text = f"{param}: {message}" if param else message
    return InvalidError(text[:MAX_SHOWN_CHARS], param=param and param[:MAX_SHOWN_CHARS])
