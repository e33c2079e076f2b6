"""What happens to a generation: an append-only log, `seq` contiguous from 0, one terminal event.

Order: Started, Progress*, Delta*, then exactly one of Finished | Failed | Cancelled. A terminal
event may come first; `Failed` in place of `Started` is a refusal. `Snapshot` isn't an event of the
log: it stands for all events up to its `seq`.

While versions change, readers meet events of a later one: a kind they don't know comes as
`Unknown`, which has a seq and nothing else, and fields they don't know are ignored. So a new event
or field must be one that a reader can do without; a new terminal event, or a new value of an old
field, isn't.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from inference.protocol.results import UtilityResult

DeltaKind: TypeAlias = Literal["content", "reasoning", "tool_call"]
CallEnd: TypeAlias = Literal["complete", "broken"]
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls"]
FailureCode: TypeAlias = Literal[
    "invalid_request",  # the caller's input; message says what
    "context_length_exceeded",  # the prompt is too long; both numbers in `details`
    "not_supported",  # this engine or model can't do it
    "busy",  # a bound was reached
    "deadline_exceeded",  # `deadline_at` passed
    "engine_failed",  # the model or our code failed for this sequence
    "engine_crashed",  # the engine died more often than a request may survive
    "model_unavailable",  # no engine can serve the model
]
CancelledBy: TypeAlias = Literal["user", "reader_gone", "owner", "shutdown", "deleted"]


@dataclass(frozen=True, slots=True)
class TokenProb:
    """One candidate token: its bytes as integers and a finite log-probability, of the raw logits
    or, where the request asks for it, of what the sampler chain left."""

    token_id: int
    token_bytes: tuple[int, ...]
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """The chosen token and its `num_probs` best rivals; fewer if the chain left fewer."""

    chosen: TokenProb
    top: tuple[TokenProb, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts; `cached_tokens` is the part of `prompt_tokens` that wasn't evaluated."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """Engine-side durations. `queued_ms`: submit to claim. Rates are left to the reader."""

    queued_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Started:
    """A slot took the request."""

    prompt_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Prefill: `done` of `total` prompt tokens are in the context, cached ones included."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class CallRef:
    """A tool call of an answer; `index` counts them from 0.

    `id` and `name` stand in its first delta only, `end` in its last one. A "broken" call was cut or
    malformed: its arguments may be no JSON, and nobody should run it.
    """

    index: int
    id: str = ""
    name: str = ""
    end: CallEnd | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """Text added since the last event, and the token ids it covers.

    `token_ids` also hold tokens whose text is still held back (stop prefix, split character), so
    that replaying all ids rebuilds the exact state; they are never shown to clients. `draws`:
    random numbers drawn for these tokens. `text` of a "tool_call" are more of its arguments, JSON
    text; `call` says which call. Calls never overlap, and the first delta of one may be empty.
    `timings`: up to here, where the request asks for them.
    """

    text: str
    token_ids: tuple[int, ...]
    draws: int = 0
    kind: DeltaKind = "content"
    logprobs: tuple[TokenLogprobs, ...] = ()
    call: CallRef | None = None
    timings: Timings | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The answer of a utility request."""

    result: UtilityResult


@dataclass(frozen=True, slots=True)
class Finished:
    """The model ended by itself or at a limit; `stop_string` is the one that matched.

    `truncated`: the context was full, which ended the answer or cost it its older part.
    """

    reason: FinishReason
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    stop_string: str | None = None
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """Ended by an error; `message` holds no prompt text. `details`: numbers named by the code."""

    code: FailureCode
    message: str
    retryable: bool = False
    param: str | None = None
    details: tuple[tuple[str, int], ...] = ()
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Ended on request."""

    by: CancelledBy
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Unknown:
    """An event of a later version, by its class name. Never written, never terminal."""

    name: str


Terminal: TypeAlias = Finished | Failed | Cancelled
Event: TypeAlias = Started | Progress | Delta | Result | Finished | Failed | Cancelled | Unknown


@dataclass(frozen=True, slots=True)
class Entry:
    """One event with its place in the log."""

    seq: int
    event: Event


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The fold of all events up to and including `seq`; see `inference.protocol.fold`.

    `parts` are (kind, text) runs in order, each tool call one of its own, and `calls` the calls of
    those; `token_ids` and `draws` are sums over the deltas.
    """

    seq: int
    started: Started | None = None
    progress: Progress | None = None
    parts: tuple[tuple[DeltaKind, str], ...] = ()
    token_ids: tuple[int, ...] = ()
    draws: int = 0
    logprobs: tuple[TokenLogprobs, ...] = ()
    result: Result | None = None
    terminal: Terminal | None = None
    calls: tuple[CallRef, ...] = ()


def is_terminal(event: Event) -> bool:
    """Whether nothing may follow `event`."""
    return isinstance(event, Finished | Failed | Cancelled)
