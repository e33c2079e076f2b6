"""Errors in the shape of the Ollama family."""

from __future__ import annotations

from typing import Any

from inference.edge.errors import ErrorReply, busy_fields, error_reply
from llamaweb.lib.errors import LlamawebError


def error_body(message: str) -> dict[str, Any]:
    """`{"error": message}`."""
    return {"error": message}


def ollama_reply(error: LlamawebError) -> ErrorReply:
    """The answer to an expected error; the path of a field has no place but the message."""
    reply = error_reply(error)
    message, param = error.message, reply.body["error"]["param"]
    if param is not None and not message.startswith(param):
        message = f"{param}: {message}"
    body = {**error_body(message), **busy_fields(error)}
    return ErrorReply(reply.status, body, reply.headers)
