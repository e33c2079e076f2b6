"""Errors every layer may raise; one place at each edge turns them into responses.

Each error says whose fault it was, whether trying again can help, and names the field and the
limit where there is one. Services never know HTTP: the tables live in the edges.
"""

from __future__ import annotations


class LlamawebError(Exception):
    """Base of all expected errors.

    Attributes:
        message: one sentence for the person who can act on it; holds no prompt text.
        retryable: whether the same call may succeed later.
        is_end: it tells how something ended that had begun; nothing was turned away.
    """

    retryable = False
    is_end = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidError(LlamawebError):
    """The caller's input can't be served as given; `param` is the JSON path of the field, `bound`
    the name of the bound that it is beyond, for metrics, "" where it is wrong in another way."""

    def __init__(self, message: str, *, param: str | None = None, bound: str = "") -> None:
        super().__init__(message)
        self.param = param
        self.bound = bound


class TooLongError(LlamawebError):
    """The prompt doesn't fit the context; both lengths are in tokens.

    `at_least`: nobody counted to the end, the prompt has `prompt_tokens` or more. `param`: the JSON
    path of the one among several.
    """

    def __init__(
        self,
        *,
        prompt_tokens: int,
        max_context: int,
        at_least: bool = False,
        param: str | None = None,
    ) -> None:
        super().__init__(
            f"{param or 'request'} ({'at least ' if at_least else ''}{prompt_tokens} tokens) "
            f"exceeds the available context size ({max_context} tokens), try increasing it"
        )
        self.param = param
        self.prompt_tokens = prompt_tokens
        self.max_context = max_context
        self.at_least = at_least


class WrongModelError(InvalidError):
    """The model isn't made for what is asked of it; another one may be."""

    def __init__(self, message: str) -> None:
        super().__init__(message, param="model")


class BusyError(LlamawebError):
    """A bound is reached; `reason` names it and `retry_after_s` says when to come back. `position`:
    how many wait in the queue that had no room."""

    retryable = True

    def __init__(
        self, message: str, *, reason: str, retry_after_s: float, position: int | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.position = position

    @property
    def retry_after_whole_s(self) -> int:
        """For whoever counts in whole seconds, at least 1."""
        return max(1, round(self.retry_after_s))


class FailedError(LlamawebError):
    """Our own fault; the cause is chained."""

    retryable = True


class UnavailableError(LlamawebError):
    """What is asked for isn't there right now (loading, restarting); try again."""

    retryable = True


class NotFoundError(LlamawebError):
    """Absent or not yours: the two are never told apart."""


class GoneError(NotFoundError):
    """It is the caller's, but what is asked of it isn't kept any more."""


class AuthenticationError(LlamawebError):
    """No valid credentials were presented."""


class ForbiddenError(LlamawebError):
    """Known caller, but the act isn't allowed for them."""


class NotSupportedError(LlamawebError):
    """This model or this installation can't do what is asked."""


class DeadlineError(LlamawebError):
    """The time given to the request is over."""

    retryable = True


class StoppedError(LlamawebError):
    """The request was ended on somebody's order before it was complete."""
