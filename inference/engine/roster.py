"""The sequences of an engine: who is here, what each has to say, and how each ends."""

from __future__ import annotations

from dataclasses import replace

from inference.engine.constraints import ConstraintError
from inference.engine.contract import EngineEvent
from inference.engine.prompt_cache import PromptCache
from inference.engine.scheduler import GroupTurns
from inference.engine.sequence import Phase, Sequence
from inference.engine.stats import EngineStats
from inference.engine.stopping import Ended
from inference.engine.trace import Trace
from inference.protocol.events import Delta, Event, Failed, Finished, Terminal
from llamaweb.lib.clock import Clock
from llamaweb.lib.errors import InvalidError


class Roster:
    """`active`: by generation id, in order of arrival. `step`: number of the one being made."""

    def __init__(
        self,
        cache: PromptCache,
        stats: EngineStats,
        clock: Clock,
        *,
        max_context: int,
        trace: Trace | None = None,
    ) -> None:
        self.active: dict[str, Sequence] = {}
        self.turns = GroupTurns()
        self.step = 0
        self._cache = cache
        self._stats = stats
        self._clock = clock
        self._max_context = max_context
        self._trace = trace
        self._events: list[EngineEvent] = []

    def join(self, sequence: Sequence) -> None:
        """A sequence is here; pair of `leave`."""
        self.active[sequence.request.generation_id] = sequence
        self.turns.join(sequence)
        self._note_phase(sequence)

    def enter(self, sequence: Sequence, phase: Phase) -> None:
        """It is in another phase from now on."""
        sequence.phase = phase
        self._note_phase(sequence)

    def emit(self, sequence: Sequence, event: Event) -> None:
        """What the next `take_events` returns."""
        if isinstance(event, Delta) and sequence.request.sampling.timings_per_token:
            event = replace(event, timings=sequence.clock.timings(self._clock.monotonic()))
        self._events.append(EngineEvent(sequence.request.generation_id, event))

    def take_events(self) -> list[EngineEvent]:
        """All since the last call."""
        events, self._events = self._events, []
        return events

    def finish(self, sequence: Sequence, ended: Ended) -> None:
        """It came to an end of its own."""
        timings = sequence.clock.timings(self._clock.monotonic())
        is_truncated = self._is_truncated(sequence, ended)
        event = Finished(ended.reason, sequence.usage(), timings, ended.stop_string, is_truncated)
        self.end(sequence, event)

    def fail(self, sequence: Sequence, error: Exception | None = None) -> None:
        """It can't go on; only what its request is to blame for is told to readers."""
        usage = sequence.usage()
        if isinstance(error, InvalidError):
            event = Failed("invalid_request", error.message, param=error.param, usage=usage)
        elif isinstance(error, ConstraintError):
            event = Failed("engine_failed", str(error), usage=usage)
        else:
            message = "the model failed on this request"
            event = Failed("engine_failed", message, retryable=True, usage=usage)
        self.end(sequence, event)

    def end(self, sequence: Sequence, event: Terminal) -> None:
        """Its last words, then `event`, then it is gone."""
        if not isinstance(event, Finished) and (held := sequence.answer.release()):
            self.emit(sequence, Delta(held, ()))
        self.emit(sequence, event)
        self.leave(sequence)
        self._stats.count_end(event)

    def leave(self, sequence: Sequence) -> None:
        """It goes without a word; what its slot holds stays in the cache."""
        del self.active[sequence.request.generation_id]
        if self._trace is not None:
            self._trace.end(sequence, self._clock.monotonic())
        self.turns.leave(sequence)
        self._cache.leave(sequence.slot, self.step)
        sequence.sampler.close()

    def _is_truncated(self, sequence: Sequence, ended: Ended) -> bool:
        held = sequence.prompt_len + sequence.answer.num_tokens
        is_full = ended.reason == "length" and held >= self._max_context
        return sequence.was_shifted or is_full

    def _note_phase(self, sequence: Sequence) -> None:
        if self._trace is not None:
            self._trace.phase(sequence, self._clock.monotonic())
