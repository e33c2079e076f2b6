"""Which statuses a route may answer with, by what it takes, and how its family words errors."""

from __future__ import annotations

from typing import Any, Final

REASONS: Final = {
    400: "The request can't be served as it is; the message names the field.",
    401: "No valid key.",
    403: "The key lacks the scope.",
    404: "There is no such thing, or it isn't yours.",
    410: "It is yours, but what is asked of it isn't kept any more.",
    413: "The body is larger than `LLAMAWEB_MAX_BODY_BYTES`.",
    429: "A bound of this key, user or address; `Retry-After` says when to come back.",
    499: "Ended on somebody's order.",
    500: "The model or the server failed.",
    501: "This model or this installation can't do it.",
    503: "No engine, no Redis, or a bound of the whole server.",
    504: "Over `LLAMAWEB_REQUEST_TIMEOUT_S`.",
}
ALWAYS: Final = (401, 403, 429, 503)
WITH_INPUT: Final = (400,)
WITH_BODY: Final = (413,)
WITH_NAME: Final = (404,)
OF_ENGINE: Final = (499, 500, 501, 504)

_MESSAGE: Final = {"type": "string"}
_OPENAI: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": _MESSAGE,
                "type": {"type": "string"},
                "param": {
                    "type": ["string", "null"],
                    "description": "JSON path of the field that the error is about.",
                },
                "code": {"type": "integer", "description": "The HTTP status."},
                "reason": {"type": "string", "description": "The bound that was reached."},
                "request_id": {"type": "string"},
            },
        }
    },
}
_ANTHROPIC: Final = {
    "type": "object",
    "required": ["type", "error"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {"type": {"type": "string"}, "message": _MESSAGE},
        },
        "request_id": {"type": "string"},
    },
}
_OLLAMA: Final = {"type": "object", "required": ["error"], "properties": {"error": _MESSAGE}}
SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "OpenAIError": _OPENAI,
    "AnthropicError": _ANTHROPIC,
    "OllamaError": _OLLAMA,
}


def error_responses(statuses: set[int], schema: str) -> dict[str, Any]:
    """The responses object of `statuses`, worded as `schema` says."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {
        str(status): {"description": REASONS[status], "content": content}
        for status in sorted(statuses)
    }
