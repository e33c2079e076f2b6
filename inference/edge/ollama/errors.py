"""Errors in the shape of the Ollama family."""

from __future__ import annotations

from typing import Any

from inference.edge.errors import ErrorReply, error_reply
from llamaweb.lib.errors import LlamawebError


def error_body(message: str) -> dict[str, Any]:
    """`{"error": message}`."""
    return {"error": message}


def ollama_reply(error: LlamawebError) -> ErrorReply:
    """The answer to an expected error."""
    reply = error_reply(error)
    body = error_body(reply.body["error"]["message"])
    return ErrorReply(reply.status, body, reply.headers)
