"""What an engine promises to the worker (`StepEngine`) and to any program (`LLMEngine`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from llguidance import LLMatcher

from inference.engine.adapters import Adapter, Scales
from inference.protocol.events import CancelledBy, Event, Snapshot
from inference.protocol.params import ContextParams, Limits, SamplingParams
from inference.protocol.requests import GenerateRequest, Lane
from inference.text.answer.families import AnswerFormat
from inference.text.answer.tools import Tool


@dataclass(frozen=True, slots=True)
class Resume:
    """What an earlier engine published: replayed through sampler, detokenizer and stop rules
    without emitting, then evaluated with the prompt as one prefill."""

    token_ids: tuple[int, ...]
    draws: int


class Prepared(Protocol):
    """What a pipeline makes of a request, and its engine takes."""

    @property
    def generation_id(self) -> str:
        """Of the request."""
        ...

    def after(self, log: Snapshot | None, *, alone: bool) -> Prepared:
        """The same, going on from what an earlier engine published."""
        ...


PreparedT = TypeVar("PreparedT", bound=Prepared)
PreparedT_contra = TypeVar("PreparedT_contra", bound=Prepared, contravariant=True)

Task: TypeAlias = Literal["generate", "embed", "rerank"]


@dataclass(frozen=True, slots=True)
class Thoughts:
    """How reasoning is told from the rest of an answer in `form`, and ended.

    `budget`: tokens that all of it may have, None: any number. `closing`: tokens that end it, said
    in the model's place when the budget is used up or on order. `tools`: what may be called in it.
    """

    form: AnswerFormat
    closing: tuple[int, ...]
    budget: int | None = None
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True, slots=True)
class SequenceRequest:
    """A generation after templating and tokenising.

    `tokens` is the whole prompt; its first `public_len` tokens are the server's own text and may
    be shared by everybody, the rest only within `cache_scope`. `owner_key` is the unit of fairness.
    `preserved`: special tokens whose text is part of the answer. `opened`: markup at the prompt's
    end, such as `<think>`, that the answer goes on inside of; `is_begun`: behind words. `thoughts`:
    where its reasoning is followed. `adapters`: (number in the backend's list, scale) in order.
    `matcher`: the compiled grammar of `sampling`; without it the engine's loop compiles it.
    """

    generation_id: str
    tokens: tuple[int, ...]
    owner_key: str
    cache_scope: str
    seed: int
    public_len: int = 0
    lane: Lane = "interactive"
    sampling: SamplingParams = field(default_factory=SamplingParams)
    limits: Limits = field(default_factory=Limits)
    resume: Resume | None = None
    alone: bool = False
    preserved: frozenset[int] = frozenset()
    context: ContextParams = field(default_factory=ContextParams)
    adapters: Scales = ()
    opened: str = ""
    is_begun: bool = False
    thoughts: Thoughts | None = None
    task: Task = "generate"
    matcher: LLMatcher | None = field(default=None, compare=False, repr=False)

    def after(self, log: Snapshot | None, *, alone: bool) -> SequenceRequest:
        """See `Prepared.after`."""
        resume = Resume(log.token_ids, log.draws) if log is not None and log.token_ids else None
        return replace(self, resume=resume, alone=alone)


@dataclass(frozen=True, slots=True)
class EngineEvent:
    """One event of one generation."""

    generation_id: str
    event: Event


class StepEngine(Protocol[PreparedT_contra]):
    """An engine driven step by step from one thread. Every added sequence ends in exactly one
    terminal event, returned by `step` or `abort`, unless it is dropped."""

    @property
    def max_context(self) -> int:
        """Tokens a sequence may hold, prompt and answer together."""
        ...

    @property
    def adapters(self) -> tuple[Adapter, ...]:
        """The loaded LoRA adapters; requests name them by their place."""
        ...

    @property
    def free_slots(self) -> int:
        """How many sequences can be added now."""
        ...

    @property
    def has_work(self) -> bool:
        """Whether `step` would do something."""
        ...

    def add(self, request: PreparedT_contra) -> None:
        """Take a sequence in.

        Raises:
            TooLongError: prompt tokens >= `max_context`.
            InvalidError: tokens out of range, sampling that can't be built.
            BusyError: no free slot.
        """
        ...

    def abort(self, generation_id: str, by: CancelledBy) -> list[EngineEvent]:
        """End a sequence; its slot is free on return. Unknown ids are ignored."""
        ...

    def drop(self, generation_id: str) -> None:
        """Forget a sequence without a word: it belongs to another engine now."""
        ...

    def end_reasoning(self, generation_id: str) -> None:
        """Have the reasoning of a sequence end, and that which it may begin later. Unknown ids are
        ignored, and sequences whose reasoning isn't followed."""
        ...

    def purge(self, *, owner_key: str | None = None, conversation: str | None = None) -> int:
        """Forget what the prompt cache holds of an owner or a conversation, or all of it; what is
        being computed goes when it ends. Returns how many tokens went at once."""
        ...

    def step(self) -> list[EngineEvent]:
        """Compute one batch and return what came of it, in order for each sequence."""
        ...

    def stats(self) -> Mapping[str, float | int]:
        """Counters and gauges since start, named after the glossary."""
        ...

    def close(self) -> None:
        """Free the model."""
        ...


TokenEngine: TypeAlias = StepEngine[SequenceRequest]


@runtime_checkable
class LongSteps(Protocol):
    """What an engine adds to `StepEngine` whose steps may take long."""

    @property
    def progress(self) -> int:
        """Changes while a step gets on; read from any thread."""
        ...


@runtime_checkable
class RemoteEngine(Protocol):
    """What an engine adds to `StepEngine` that computes elsewhere."""

    def attach(self, *, on_work: Callable[[], None], on_trouble: Callable[[str], None]) -> None:
        """Have `on_work` called when `has_work` turned true by itself, and `on_trouble` with the
        reason when it can't serve for now, "" when it can again; from any thread."""
        ...


class LLMEngine(Protocol):
    """An engine as a program sees it: a request goes in, a stream of events comes out.

    Leaving the iterator cancels the request and frees its memory.
    """

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def max_context(self) -> int:
        """See `StepEngine.max_context`."""
        ...

    def generate(self, request: GenerateRequest) -> AsyncIterator[Event]:
        """Run `request`; refusals come as `Failed` in place of `Started`."""
        ...
