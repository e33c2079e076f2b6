"""Errors of the engine, and how each ends a generation."""

from __future__ import annotations

from inference.protocol.events import Failed
from llamaweb.lib.errors import (
    BusyError,
    FailedError,
    InvalidError,
    NotSupportedError,
    TooLongError,
)


class BackendError(FailedError):
    """The model couldn't compute; the sequences of that batch are lost, the engine is not."""


class NoRoomError(BackendError):
    """The pool of cells is full; nothing was computed and nothing is lost."""


def failed_event(error: Exception) -> Failed:
    """The terminal event for an error raised while a request was prepared or added."""
    if isinstance(error, TooLongError):
        return Failed(
            "context_length_exceeded",
            error.message,
            param=error.param,
            details=(
                ("n_prompt_tokens", error.prompt_tokens),
                ("n_ctx", error.max_context),
                *((("at_least", 1),) if error.at_least else ()),
            ),
        )
    if isinstance(error, InvalidError):
        return Failed("invalid_request", error.message, param=error.param)
    if isinstance(error, NotSupportedError):
        return Failed("not_supported", error.message)
    if isinstance(error, BusyError):
        return Failed("busy", error.message, retryable=True)
    return Failed("engine_failed", "the engine failed on this request", retryable=True)
