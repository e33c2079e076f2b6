"""Running a step engine in tests: always with a bound."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inference.engine.adapters import Adapter
from inference.engine.config import EngineConfig
from inference.engine.contract import EngineEvent, Resume, SequenceRequest
from inference.engine.engine import Engine
from inference.engine.mock_backend import MockBackend
from inference.engine.mock_tokenizer import encode_text
from inference.protocol.events import Delta, Event, Failed, Finished, Started, is_terminal
from inference.protocol.params import ContextParams, Limits, SamplingParams
from inference.protocol.requests import Lane
from inference.protocol.spec import MockSpec
from llamaweb.lib.clock import Clock, ManualClock

MAX_STEPS = 5_000
GREEDY = SamplingParams(temperature=0.0)
ADAPTERS = (
    *(Adapter(f"lora-{n}", digest=f"{n}") for n in range(3)),
    Adapter("activated", digest="3", invocation=tuple(encode_text("GO"))),
)


def make_engine(
    reply: str = "",
    *,
    num_slots: int = 4,
    config: EngineConfig | None = None,
    clock: Clock | None = None,
    spec: MockSpec | None = None,
    **backend: Any,
) -> Engine:
    """An engine on the mock, with a clock that stands still unless told."""
    backend = {"adapters": ADAPTERS} | backend
    mock = MockBackend(spec or MockSpec(reply=reply), num_seqs=num_slots, **backend)
    return Engine(mock, config, clock or ManualClock())


def backend_of(engine: Engine) -> MockBackend:
    """The mock below an engine."""
    backend = engine._backend
    assert isinstance(backend, MockBackend)
    return backend


def ask(
    generation_id: str,
    text: str | bytes = "hello",
    *,
    owner: str = "user:1",
    scope: str | None = None,
    public: int = 0,
    sampling: SamplingParams = GREEDY,
    limits: Limits | None = None,
    resume: Resume | None = None,
    lane: Lane = "interactive",
    alone: bool = False,
    seed: int = 7,
    context: ContextParams | None = None,
    adapters: tuple[tuple[int, float], ...] = (),
) -> SequenceRequest:
    """A request whose prompt is `text`; its scope is its owner unless told."""
    return SequenceRequest(
        generation_id=generation_id,
        tokens=tuple(encode_text(text) if isinstance(text, str) else text),
        owner_key=owner,
        cache_scope=scope or owner,
        seed=seed,
        public_len=public,
        lane=lane,
        sampling=sampling,
        limits=limits or Limits(),
        resume=resume,
        alone=alone,
        context=context or ContextParams(),
        adapters=adapters,
    )


def run(engine: Engine, max_steps: int = MAX_STEPS) -> dict[str, list[Event]]:
    """Step until nothing is left; events by generation."""
    out: dict[str, list[Event]] = {}
    for _ in range(max_steps):
        if not engine.has_work:
            return out
        collect(out, engine.step())
    raise AssertionError(f"still at work after {max_steps} steps")


def collect(out: dict[str, list[Event]], events: Iterable[EngineEvent]) -> None:
    """Sort events by generation."""
    for item in events:
        out.setdefault(item.generation_id, []).append(item.event)


def run_one(engine: Engine, request: SequenceRequest) -> list[Event]:
    """Add and run one request."""
    engine.add(request)
    return run(engine)[request.generation_id]


def text_of(events: list[Event]) -> str:
    """The text of all deltas."""
    return "".join(event.text for event in events if isinstance(event, Delta))


def ids_of(events: list[Event]) -> tuple[int, ...]:
    """The token ids of all deltas."""
    return tuple(i for event in events if isinstance(event, Delta) for i in event.token_ids)


def draws_of(events: list[Event]) -> int:
    """All random numbers drawn."""
    return sum(event.draws for event in events if isinstance(event, Delta))


def started(events: list[Event]) -> Started:
    """The one Started event, which must come first."""
    assert isinstance(events[0], Started)
    assert sum(isinstance(event, Started) for event in events) == 1
    return events[0]


def finished(events: list[Event]) -> Finished:
    """The terminal event, which must be Finished, last and alone."""
    last = terminal(events)
    assert isinstance(last, Finished)
    return last


def failed(events: list[Event]) -> Failed:
    """The terminal event, which must be Failed, last and alone."""
    last = terminal(events)
    assert isinstance(last, Failed)
    return last


def terminal(events: list[Event]) -> Event:
    """The one terminal event, which must come last."""
    assert [is_terminal(event) for event in events].count(True) == 1
    assert is_terminal(events[-1])
    return events[-1]
