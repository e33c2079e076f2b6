"""What is refused before any route is found, in the shape of the family whose address was asked."""

from __future__ import annotations

from typing import Any, Final

from inference.edge.anthropic import errors as anthropic
from inference.edge.errors import error_body
from inference.edge.ollama import errors as ollama

ANTHROPIC_PREFIX: Final = "/v1/messages"
OLLAMA_PREFIX: Final = "/api/"
APP_PREFIX: Final = "/api/app/"  # the browser app's, whose errors are objects as most are


def refusal_body(
    path: str, status: int, message: str, request_id: str = "", **more: Any
) -> dict[str, Any]:
    """The JSON object of an error at `path`; `more` is for families that have a place for it."""
    if path.startswith(ANTHROPIC_PREFIX):
        return anthropic.error_body(status, message, request_id)
    if path.startswith(OLLAMA_PREFIX) and not path.startswith(APP_PREFIX):
        return ollama.error_body(message)
    return error_body(status, message, **more)
