"""Exceptions to `Failed` events: the one table of the engine process."""

from __future__ import annotations

from inference.protocol.events import Failed, Usage
from llamaweb.lib.errors import BusyError, InvalidError, TooLongError


class NotServedError(Exception):
    """This engine can't do what was asked."""


def failure_of(error: Exception, usage: Usage | None = None) -> Failed:
    """The event that tells `error` to the caller; an unknown error stays ours, without details."""
    usage = usage or Usage()
    if isinstance(error, TooLongError):
        numbers = (("n_prompt_tokens", error.prompt_tokens), ("n_ctx", error.max_context))
        return Failed("context_length_exceeded", error.message, details=numbers, usage=usage)
    if isinstance(error, InvalidError):
        return Failed("invalid_request", error.message, param=error.param, usage=usage)
    if isinstance(error, BusyError):
        return Failed("busy", error.message, retryable=True, usage=usage)
    if isinstance(error, NotServedError):
        return Failed("not_supported", str(error), usage=usage)
    return Failed("engine_failed", "the engine failed on this request", retryable=True, usage=usage)
