"""One table: which error becomes which answer in the OpenAI family of routes.

Used where a response is made (`llamaweb.api`, the web server's own refusals) and where an error
travels inside a stream. Services raise; only edges read this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llamaweb.lib.errors import (
    AuthenticationError,
    BusyError,
    FailedError,
    ForbiddenError,
    InvalidError,
    LlamawebError,
    NotFoundError,
    TooLongError,
    UnavailableError,
)


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error on the wire: `body` is the whole JSON object."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


# The first class that fits decides, so subclasses stand before their base.
STATUS_AND_TYPE: tuple[tuple[type[LlamawebError], int, str], ...] = (
    (TooLongError, 400, "exceed_context_size_error"),
    (InvalidError, 400, "invalid_request_error"),
    (AuthenticationError, 401, "authentication_error"),
    (ForbiddenError, 403, "permission_error"),
    (NotFoundError, 404, "not_found_error"),
    (BusyError, 429, "rate_limit_error"),
    (UnavailableError, 503, "unavailable_error"),
    (FailedError, 500, "server_error"),
    (LlamawebError, 500, "server_error"),
)
TYPE_BY_STATUS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    501: "not_supported_error",
    503: "unavailable_error",
}


def error_body(
    status: int, message: str, *, type_: str | None = None, param: str | None = None, **more: Any
) -> dict[str, Any]:
    """`{"error": {message, type, param, code, …}}`; `type_` follows from `status` if absent."""
    fallback = "server_error" if status >= 500 else "invalid_request_error"
    kind = type_ or TYPE_BY_STATUS.get(status, fallback)
    return {"error": {"message": message, "type": kind, "param": param, "code": status, **more}}


def error_reply(error: LlamawebError) -> ErrorReply:
    """The answer to an expected error."""
    status, kind = next(
        (status, kind) for cls, status, kind in STATUS_AND_TYPE if isinstance(error, cls)
    )
    headers: dict[str, str] = {}
    more: dict[str, Any] = {}
    param: str | None = None
    if isinstance(error, TooLongError):
        more = {"n_prompt_tokens": error.prompt_tokens, "n_ctx": error.max_context}
    elif isinstance(error, InvalidError):
        param = error.param
    elif isinstance(error, BusyError):
        more = {"reason": error.reason}
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    elif isinstance(error, AuthenticationError):
        headers["WWW-Authenticate"] = 'Bearer realm="llamaweb"'
    elif isinstance(error, UnavailableError):
        headers["Retry-After"] = "1"
    body = error_body(status, error.message, type_=kind, param=param, **more)
    return ErrorReply(status, body, headers)
