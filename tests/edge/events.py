"""Short names for events of the protocol."""

from __future__ import annotations

from inference.protocol.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    Started,
    Timings,
    TokenLogprobs,
    TokenProb,
    Usage,
)

STARTED = Started(prompt_tokens=10, cached_tokens=4)
USAGE = Usage(prompt_tokens=10, completion_tokens=3, cached_tokens=4)
TIMINGS = Timings(queued_ms=1.0, prefill_ms=60.0, decode_ms=50.0)


def delta(text: str, num_tokens: int = 1) -> Delta:
    """A piece of content."""
    return Delta(text, tuple(range(num_tokens)))


def finished(reason: FinishReason = "stop", stop: str | None = None) -> Finished:
    """The end."""
    return Finished(reason, USAGE, TIMINGS, stop)


def answer(*texts: str) -> tuple[Event, ...]:
    """A whole log that says `texts`."""
    return (STARTED, *(delta(text) for text in texts), finished())


def logprobs(text: str) -> TokenLogprobs:
    """The choice of a token that is `text`."""
    data = tuple(text.encode())
    return TokenLogprobs(
        TokenProb(7, data, -0.5), (TokenProb(7, data, -0.5), TokenProb(8, (33,), -1.5))
    )
