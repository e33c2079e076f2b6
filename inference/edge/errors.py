"""One table: which error becomes which answer in the OpenAI family of routes.

Used where a response is made (`llamaweb.api`, the web server's own refusals) and where an error
travels inside a stream. Services raise; only edges read this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from inference.protocol.events import Cancelled, Failed
from llamaweb.lib.errors import (
    AuthenticationError,
    BusyError,
    DeadlineError,
    FailedError,
    ForbiddenError,
    GoneError,
    InvalidError,
    LlamawebError,
    NotFoundError,
    NotSupportedError,
    StoppedError,
    TooLongError,
    UnavailableError,
    WrongModelError,
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
    (WrongModelError, 400, "not_supported_error"),
    (InvalidError, 400, "invalid_request_error"),
    (AuthenticationError, 401, "authentication_error"),
    (ForbiddenError, 403, "permission_error"),
    (GoneError, 410, "gone_error"),
    (NotFoundError, 404, "not_found_error"),
    (BusyError, 429, "rate_limit_error"),
    (StoppedError, 499, "request_cancelled"),
    (NotSupportedError, 501, "not_supported_error"),
    (UnavailableError, 503, "unavailable_error"),
    (DeadlineError, 504, "timeout_error"),
    (FailedError, 500, "server_error"),
    (LlamawebError, 500, "server_error"),
)
# Bounds of the whole server, not of this caller: nothing the caller did was too much.
SERVER_BOUNDS = frozenset({"queue_full", "memory", "engine_busy"})
ENGINE_RETRY_S = 1.0
TOO_LONG_REASON = "context_length_exceeded"  # clients look for OpenAI's word in the body
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
        numbers = {"n_prompt_tokens": error.prompt_tokens, "n_ctx": error.max_context}
        more = {"reason": TOO_LONG_REASON, **numbers}
        param = error.param
    elif isinstance(error, InvalidError):
        param = error.param
    elif isinstance(error, BusyError):
        if error.reason in SERVER_BOUNDS:
            status, kind = 503, "unavailable_error"
        more = busy_fields(error)
        headers["Retry-After"] = str(error.retry_after_whole_s)
    elif isinstance(error, AuthenticationError):
        headers["WWW-Authenticate"] = 'Bearer realm="llamaweb"'
    elif isinstance(error, UnavailableError):
        headers["Retry-After"] = "1"
    # What is over at its own deadline would be so again.
    if status >= 500 and (not error.retryable or isinstance(error, DeadlineError)):
        headers["X-Should-Retry"] = "false"  # the official clients would
    message = _with_field(error.message, param)
    body = error_body(status, message, type_=kind, param=param, **more)
    return ErrorReply(status, body, headers)


def busy_fields(error: LlamawebError) -> dict[str, Any]:
    """What the bodies of all families tell of a bound: its name, and how many wait in a queue."""
    if not isinstance(error, BusyError):
        return {}
    position = {} if error.position is None else {"position": error.position}
    return {"reason": error.reason, **position}


def _with_field(message: str, param: str | None) -> str:
    """`message`, which many clients show alone, with the field it is about."""
    if param is None or param.rpartition(".")[2] in message:
        return message
    return f"{param}: {message}"


def end_error(end: Failed | Cancelled) -> LlamawebError:
    """The error that tells how a generation ended, for the table above."""
    error = _end_error(end)
    error.is_end = True
    return error


def _end_error(end: Failed | Cancelled) -> LlamawebError:
    if isinstance(end, Cancelled):
        if end.by == "shutdown":
            return UnavailableError("the server is shutting down")
        if end.by == "owner":
            return ForbiddenError("this API key, or its right to use the model, has ended")
        return StoppedError("the request was cancelled")
    if end.code == "context_length_exceeded":
        numbers = dict(end.details)
        return TooLongError(
            prompt_tokens=numbers.get("n_prompt_tokens", 0),
            max_context=numbers.get("n_ctx", 0),
            at_least=bool(numbers.get("at_least")),
            param=end.param,
        )
    if end.code == "invalid_request":
        return InvalidError(end.message, param=end.param)
    if end.code == "busy":
        return BusyError(end.message, reason="engine_busy", retry_after_s=ENGINE_RETRY_S)
    simple: dict[str, type[LlamawebError]] = {
        "not_supported": NotSupportedError,
        "deadline_exceeded": DeadlineError,
        "model_unavailable": UnavailableError,
    }
    return simple.get(end.code, FailedError)(end.message)
