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
from inference.engine.upstream.trying import Call
from inference.engine.upstream.vector_call import VectorCall
from inference.engine.upstream.vectors import VectorsAsked
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
MAX_VECTORS = 64  # requests for vectors held at once; workers take fewer, the queue keeps the rest
RETRY_S = 1.0


class UpstreamEngine:
    """See `StepEngine` and `RemoteEngine`: `step` hands out what the calls' threads brought.

    `num_slots` answers come side by side, and as many requests for vectors, which wait here for
    their turn: neither keeps the other waiting. `max_context` 0: nobody knows.
    """

    def __init__(self, link: Link, health: Health, clock: Clock, *, num_slots: int) -> None:
        self.max_context = 0
        self._link = link
        self._health = health
        self._clock = clock
        self._num_slots = num_slots
        self._stats = EngineStats()
        self._calls: dict[str, Call] = {}
        self._waiting: deque[VectorCall] = deque()
        self._lock = threading.Lock()
        self._came: deque[tuple[Call, Event]] = deque()
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
        return self._num_slots - len(self._calls) + self._num_vectors

    @property
    def has_work(self) -> bool:
        """Whether something came, or a request for vectors that waits has a place now."""
        return bool(self._came) or (bool(self._waiting) and self._num_vectors < self._num_slots)

    def add(self, request: UpstreamRequest | VectorsAsked) -> None:
        """See `StepEngine.add`; an answer is on its way when this returns."""
        has_place = isinstance(request, VectorsAsked) or self.free_slots > 0
        if not has_place or self._num_threads >= 2 * self._num_slots + MAX_ENDING:
            raise _busy("no connection is free")
        if isinstance(request, VectorsAsked):
            self._add_vectors(request)
        else:
            self._start(UpstreamCall(request, self._link, self._health, self._clock, self._take))

    def abort(self, generation_id: str, by: CancelledBy) -> list[EngineEvent]:
        """See `StepEngine.abort`; what came before it is part of the answer."""
        if self._forget_waiting(generation_id):
            return [EngineEvent(generation_id, Cancelled(by))]
        call = self._calls.get(generation_id)
        if call is None:
            return []
        call.cut()
        events = self._left_of(call)
        if not (events and is_terminal(events[-1])):
            events.append(Cancelled(by, call.usage))
        return [self._handed_out(call, event) for event in events]

    def drop(self, generation_id: str) -> None:
        """See `StepEngine.drop`; its place is taken in the next step: there is none at the end."""
        self._forget_waiting(generation_id)
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
        self._start_waiting()
        with self._lock:
            came = list(self._came)
            self._came.clear()
        self._stats.steps += 1
        return [
            self._handed_out(call, event)
            for call, event in came
            if self._calls.get(call.generation_id) is call
        ]

    def stats(self) -> Mapping[str, float | int]:
        """See `StepEngine.stats`; of the counters those that mean something here."""
        running = self._num_slots - self.free_slots
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
            "free_slots": self.free_slots,
            "embed_waiting": self._num_vectors + len(self._waiting),
        }

    def close(self) -> None:
        """Cut what runs."""
        self._health.close()
        self._waiting.clear()
        for generation_id in list(self._calls):
            self.drop(generation_id)

    def _add_vectors(self, asked: VectorsAsked) -> None:
        if self._num_vectors + len(self._waiting) >= MAX_VECTORS:
            raise _busy(f"{MAX_VECTORS} requests for vectors are being asked, the most allowed")
        self._waiting.append(VectorCall(asked, self._link, self._health, self._clock, self._take))
        self._start_waiting()

    def _start_waiting(self) -> None:
        """As many as have a place now."""
        while self._waiting and self._num_vectors < self._num_slots:
            self._start(self._waiting.popleft())

    def _start(self, call: Call) -> None:
        self._calls[call.generation_id] = call
        with self._lock:
            self._num_threads += 1
        threading.Thread(target=self._run, args=(call,), name="upstream", daemon=True).start()

    @property
    def _num_vectors(self) -> int:
        # A copy: the heartbeat asks from another thread.
        return sum(isinstance(call, VectorCall) for call in list(self._calls.values()))

    def _forget_waiting(self, generation_id: str) -> bool:
        """Whether it was there."""
        for call in self._waiting:
            if call.generation_id == generation_id:
                self._waiting.remove(call)
                return True
        return False

    def _handed_out(self, call: Call, event: Event) -> EngineEvent:
        generation_id = call.generation_id
        if isinstance(call, VectorCall):
            if is_terminal(event):
                del self._calls[generation_id]
                self._start_waiting()
        elif isinstance(event, Delta):
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

    def _left_of(self, call: Call) -> list[Event]:
        """What came of `call` and wasn't handed out."""
        with self._lock:
            events = [event for of, event in self._came if of is call]
            rest = [item for item in self._came if item[0] is not call]
            self._came.clear()
            self._came.extend(rest)
        return events

    # --- the calls' threads

    def _run(self, call: Call) -> None:
        try:
            call.run()
        finally:
            with self._lock:
                self._num_threads -= 1

    def _take(self, call: Call, events: Sequence[Event]) -> None:
        with self._lock:
            self._came.extend((call, event) for event in events)
        self._on_work()


def _busy(message: str) -> BusyError:
    return BusyError(message, reason="engine_busy", retry_after_s=RETRY_S)
