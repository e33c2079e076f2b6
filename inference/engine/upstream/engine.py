"""Many calls to one other server, behind the contract that every engine has."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from inference.engine.adapters import Adapter
from inference.engine.contract import EngineEvent
from inference.engine.stats import EngineStats
from inference.engine.upstream.call import UpstreamCall
from inference.engine.upstream.health import Health
from inference.engine.upstream.link import Link
from inference.engine.upstream.request import UpstreamRequest
from inference.protocol.events import (
    Cancelled,
    CancelledBy,
    Delta,
    Event,
    Failed,
    Finished,
    is_terminal,
)
from llamaweb.lib.clock import Clock
from llamaweb.lib.errors import BusyError

MAX_ENDING = 64  # connections that were cut and aren't closed yet
RETRY_S = 1.0


class UpstreamEngine:
    """See `StepEngine` and `RemoteEngine`: `step` hands out what the calls' threads brought.

    `num_slots` calls run side by side; `max_context` 0: nobody knows.
    """

    def __init__(self, link: Link, health: Health, clock: Clock, *, num_slots: int) -> None:
        self.max_context = 0
        self._link = link
        self._health = health
        self._clock = clock
        self._num_slots = num_slots
        self._stats = EngineStats()
        self._calls: dict[str, UpstreamCall] = {}
        self._lock = threading.Lock()
        self._came: deque[tuple[UpstreamCall, Event]] = deque()
        self._num_threads = 0
        self._on_work: Callable[[], None] = lambda: None

    def attach(self, *, on_work: Callable[[], None], on_trouble: Callable[[str], None]) -> None:
        """See `RemoteEngine.attach`."""
        self._on_work = on_work
        self._health.start(on_trouble)

    @property
    def adapters(self) -> tuple[Adapter, ...]:
        """See `StepEngine.adapters`: none."""
        return ()

    @property
    def free_slots(self) -> int:
        """See `StepEngine.free_slots`."""
        return self._num_slots - len(self._calls)

    @property
    def has_work(self) -> bool:
        """Whether something came."""
        return bool(self._came)

    def add(self, request: UpstreamRequest) -> None:
        """See `StepEngine.add`; it is on its way when this returns."""
        if self.free_slots <= 0 or self._num_threads >= self._num_slots + MAX_ENDING:
            raise BusyError("no connection is free", reason="engine_busy", retry_after_s=RETRY_S)
        call = UpstreamCall(request, self._link, self._health, self._clock, self._take)
        self._calls[request.generation_id] = call
        with self._lock:
            self._num_threads += 1
        threading.Thread(target=self._run, args=(call,), name="upstream", daemon=True).start()

    def abort(self, generation_id: str, by: CancelledBy) -> list[EngineEvent]:
        """See `StepEngine.abort`; what came before it is part of the answer."""
        call = self._calls.get(generation_id)
        if call is None:
            return []
        call.cut()
        events = self._left_of(call)
        if not (events and is_terminal(events[-1])):
            events.append(Cancelled(by, call.usage))
        return [self._handed_out(call, event) for event in events]

    def drop(self, generation_id: str) -> None:
        """See `StepEngine.drop`."""
        call = self._calls.pop(generation_id, None)
        if call is not None:
            call.cut()
            self._left_of(call)

    def end_reasoning(self, generation_id: str) -> None:
        """Another server's reasoning can't be ended from here; such requests are refused."""

    def purge(self, *, owner_key: str | None = None, conversation: str | None = None) -> int:
        """Nothing: what the other server remembers is its own affair."""
        return 0

    def step(self) -> list[EngineEvent]:
        """Everything that came."""
        with self._lock:
            came = list(self._came)
            self._came.clear()
        self._stats.steps += 1
        return [
            self._handed_out(call, event)
            for call, event in came
            if self._calls.get(call.request.generation_id) is call
        ]

    def stats(self) -> Mapping[str, float | int]:
        """See `StepEngine.stats`; of the counters those that mean something here."""
        running = len(self._calls)
        stats = self._stats
        return {
            "steps": stats.steps,
            "prompt_tokens": stats.prompt_tokens,
            "cached_tokens": stats.cached_tokens,
            "generated_tokens": stats.generated_tokens,
            "finished": stats.finished,
            "failed": stats.failed,
            "cancelled": stats.cancelled,
            "running": running,
            "free_slots": self._num_slots - running,
        }

    def close(self) -> None:
        """Cut what runs."""
        self._health.close()
        for generation_id in list(self._calls):
            self.drop(generation_id)

    def _handed_out(self, call: UpstreamCall, event: Event) -> EngineEvent:
        generation_id = call.request.generation_id
        if isinstance(event, Delta):
            self._stats.generated_tokens += 1
        elif isinstance(event, Finished | Failed | Cancelled):
            usage = event.usage
            self._stats.prompt_tokens += usage.prompt_tokens - usage.cached_tokens
            self._stats.cached_tokens += usage.cached_tokens
            # Until its end, an answer counts a token a delta.
            self._stats.generated_tokens += max(0, usage.completion_tokens - call.num_pieces)
            self._stats.count_end(event)
            del self._calls[generation_id]
        return EngineEvent(generation_id, event)

    def _left_of(self, call: UpstreamCall) -> list[Event]:
        """What came of `call` and wasn't handed out."""
        with self._lock:
            events = [event for of, event in self._came if of is call]
            rest = [item for item in self._came if item[0] is not call]
            self._came.clear()
            self._came.extend(rest)
        return events

    # --- the calls' threads

    def _run(self, call: UpstreamCall) -> None:
        try:
            call.run()
        finally:
            with self._lock:
                self._num_threads -= 1

    def _take(self, call: UpstreamCall, events: Sequence[Event]) -> None:
        with self._lock:
            self._came.extend((call, event) for event in events)
        self._on_work()
