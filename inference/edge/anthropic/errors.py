"""Errors in the shape of the Anthropic family."""

from __future__ import annotations

from typing import Any

from inference.edge.errors import ErrorReply, busy_fields, error_reply
from llamaweb.lib.errors import InvalidError, LlamawebError, TooLongError

TYPE_BY_STATUS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    499: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def error_body(status: int, message: str, request_id: str = "") -> dict[str, Any]:
    """`{"type": "error", "error": {type, message}}`."""
    kind = TYPE_BY_STATUS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    body: dict[str, Any] = {"type": "error", "error": {"type": kind, "message": message}}
    return {**body, "request_id": request_id} if request_id else body


def anthropic_reply(error: LlamawebError) -> ErrorReply:
    """The answer to an expected error."""
    reply = error_reply(error)
    body = error_body(reply.status, _message(error))
    body["error"] |= busy_fields(error)
    return ErrorReply(reply.status, body, reply.headers)


def _message(error: LlamawebError) -> str:
    if isinstance(error, TooLongError):
        # Clients look for these words, and then make the chat shorter by themselves.
        least = "at least " if error.at_least else ""
        lengths = f"{error.prompt_tokens} tokens > {error.max_context} maximum"
        return f"prompt is too long: {least}{lengths}"
    param = error.param if isinstance(error, InvalidError) else None
    if param is None:
        return error.message
    return error.message if error.message.startswith(param) else f"{param}: {error.message}"
