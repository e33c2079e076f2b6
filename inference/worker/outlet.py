"""From engine events to the generations' logs: take the text apart, merge, number, append; one
call for all slots.

While a call to Redis is on its way, further steps pile up and are merged into the next one, so
a slow Redis costs larger deltas and never stops the engine.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from inference.protocol.events import (
    CallRef,
    Cancelled,
    Delta,
    Event,
    Failed,
    Finished,
    Progress,
    Started,
    Usage,
    is_terminal,
)
from inference.protocol.fold import Log
from inference.queues.contract import Append, AppendOutcome, Queue
from inference.worker.running import LeaseEvent, Running, RunningSet
from llamaweb.lib.errors import UnavailableError

log = logging.getLogger(__name__)
T = TypeVar("T")

RETRY_S = 0.2  # between two tries while Redis is away
FLUSH_DEADLINE_S = 2.0  # how long stop() waits for the last events


class Outlet:
    """Publishes events from a thread of its own.

    `on_stale(generation_id, epoch)` is called when the lease is no longer ours, `on_ended()` after
    a terminal event was written (a slot may be free).
    """

    def __init__(
        self,
        *,
        model: str,
        engine_id: str,
        queue_: Queue,
        running: RunningSet,
        on_stale: Callable[[str, int], None],
        on_ended: Callable[[], None],
    ) -> None:
        self._model = model
        self._engine_id = engine_id
        self._queue = queue_
        self._running = running
        self._on_stale = on_stale
        self._on_ended = on_ended
        self._inbox: queue.SimpleQueue[Sequence[LeaseEvent] | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outlet", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, events: Sequence[LeaseEvent]) -> None:
        """Hand events over; never blocks."""
        if events:
            self._inbox.put(events)

    def stop(self) -> None:
        """Write what is there, then end the thread."""
        self._inbox.put(None)
        self._thread.join(FLUSH_DEADLINE_S)
        self._stopping.set()

    def _run(self) -> None:
        open_ = True
        while open_:
            events, open_ = self._take()
            try:
                self._publish(events)
            except UnavailableError:
                log.warning("the last events stay unwritten: redis is away")

    def _take(self) -> tuple[list[LeaseEvent], bool]:
        """Everything that waits, at least one item; False when told to end."""
        item = self._inbox.get()
        events: list[LeaseEvent] = []
        while True:
            if item is None:
                return events, False
            events.extend(item)
            try:
                item = self._inbox.get_nowait()
            except queue.Empty:
                return events, True

    def _publish(self, events: list[LeaseEvent]) -> None:
        by_lease: dict[tuple[str, int], list[Event]] = {}
        for item in events:
            by_lease.setdefault((item.generation_id, item.epoch), []).append(item.event)
        held: list[tuple[Running, Append]] = []
        for (generation_id, epoch), batch in by_lease.items():
            running = self._running.get(generation_id)
            if running is None or running.claim.epoch != epoch:
                continue  # events of a lease that ended
            shaped = self._shaped(running, batch)
            if shaped:
                held.append((running, append_of(generation_id, running, shaped)))
        while held:
            try:
                held = self._settle(held, self._write([append for _, append in held]))
            except UnavailableError:
                raise
            except Exception:
                # What is written is not known: going on would leave a hole in the text.
                log.exception("events could not be published; the leases are given up")
                self._give_up(held)
                return

    def _shaped(self, running: Running, batch: Sequence[Event]) -> list[Event]:
        try:
            return merge(shape(running, batch))
        except Exception:
            # Only this answer ends: the others know nothing of it.
            generation_id, epoch = running.claim.request.generation_id, running.claim.epoch
            log.exception("the answer of %s could not be read", generation_id)
            running.reader = None
            self._on_stale(generation_id, epoch)  # the engine forgets it
            usage = whole_usage(Usage(), running.log)
            return [Failed("engine_failed", "the model's answer could not be read", usage=usage)]

    def _give_up(self, held: list[tuple[Running, Append]]) -> None:
        """Let go of leases whose log can't be written: they end by themselves, and the next
        engine goes on from what is there."""
        for _, append in held:
            self._running.remove(append.generation_id, append.epoch)
            self._on_stale(append.generation_id, append.epoch)
        self._on_ended()

    def _write(self, batch: list[Append]) -> Sequence[AppendOutcome]:
        """Append, however long Redis is away; a repeated append writes nothing twice."""
        return self._patiently(lambda: self._queue.append(self._model, self._engine_id, batch))

    def _patiently(self, call: Callable[[], T]) -> T:
        """`call` until Redis answers; raises UnavailableError only when told to stop."""
        while True:
            try:
                return call()
            except UnavailableError as error:
                log.warning("redis is away, events wait: %s", error)
                if self._stopping.wait(RETRY_S):
                    raise

    def _settle(
        self, held: list[tuple[Running, Append]], outcomes: Sequence[AppendOutcome]
    ) -> list[tuple[Running, Append]]:
        """Apply each outcome to its lease; returns what has to be appended again.

        All logs are brought up to date before the first further call to Redis: a log that lags
        behind what was written would number the next events wrongly.
        """
        settled = list(zip(held, outcomes, strict=True))
        for (running, append), outcome in settled:
            if outcome in ("ok", "full"):
                for event in append.events:
                    running.log.add(event)
            if outcome == "stale":
                self._running.remove(append.generation_id, append.epoch)
                self._on_stale(append.generation_id, append.epoch)
            elif running.log.terminal is not None:
                self._running.remove(append.generation_id, append.epoch)
                self._on_ended()
        for (running, append), outcome in settled:
            if outcome == "full" and running.log.terminal is None:
                self._fold(running, append)
        return [item for item, outcome in settled if outcome == "gap" and self._restore(*item)]

    def _fold(self, running: Running, append: Append) -> None:
        snapshot = running.log.snapshot()
        self._patiently(
            lambda: self._queue.fold(
                self._model, self._engine_id, append.generation_id, append.epoch, snapshot
            )
        )

    def _restore(self, running: Running, append: Append) -> bool:
        """Redis lost entries that it had acknowledged: write the log again. False: not ours now."""
        snapshot = running.log.snapshot()
        restored = self._patiently(
            lambda: self._queue.restore(self._engine_id, running.claim, snapshot)
        )
        if restored:
            log.warning("restored the log of %s after lost entries", append.generation_id)
        else:
            self._running.remove(append.generation_id, append.epoch)
            self._on_stale(append.generation_id, append.epoch)
        return restored


def shape(running: Running, events: Sequence[Event]) -> list[Event]:
    """The events as readers of this log should see them, text taken apart.

    A resumed generation has started already: its second start, and progress behind what readers
    saw, stay hidden, and the usage keeps the first start's cached tokens. The engine doesn't know
    how long the request waited.
    """
    out: list[Event] = []
    reader = running.reader
    read = events if reader is None else (e for event in events for e in reader.read(event))
    for event in read:
        if isinstance(event, Finished):
            timings = replace(event.timings, queued_ms=running.claim.queued_s * 1e3)
            event = replace(event, timings=timings)
        if running.resumed:
            if isinstance(event, Started | Progress):
                continue
            if isinstance(event, Finished | Failed | Cancelled):
                event = replace(event, usage=whole_usage(event.usage, running.log))
        out.append(event)
        if is_terminal(event):
            break
    return out


def whole_usage(usage: Usage, log_: Log) -> Usage:
    """`usage` of a resumed generation's last engine, as one run: cached tokens count from the first
    start, and an end that met no engine counts what was published."""
    if log_.started is None:
        return usage
    return Usage(
        prompt_tokens=usage.prompt_tokens or log_.started.prompt_tokens,
        completion_tokens=max(usage.completion_tokens, len(log_.token_ids)),
        cached_tokens=log_.started.cached_tokens,
    )


def merge(events: Sequence[Event]) -> list[Event]:
    """Join neighbouring deltas of one kind, and of one call, and keep only the last of neighbouring
    progresses."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, Delta) and isinstance(last, Delta) and _may_join(last, event):
            shown = last if _is_silent(event) else event
            out[-1] = Delta(
                text=last.text + event.text,
                token_ids=last.token_ids + event.token_ids,
                draws=last.draws + event.draws,
                kind=shown.kind,
                logprobs=last.logprobs + event.logprobs,
                call=_one_call(last.call, event.call),
                timings=event.timings or last.timings,
            )
        elif isinstance(event, Progress) and isinstance(last, Progress):
            out[-1] = event
        else:
            out.append(event)
    return out


def _is_silent(delta: Delta) -> bool:
    """Whether it is only about tokens: their text is held back or said nothing."""
    return not delta.text and delta.call is None


def _may_join(last: Delta, delta: Delta) -> bool:
    if _is_silent(last) or _is_silent(delta):
        return True
    if last.call is None or delta.call is None:
        return last.kind == delta.kind and last.call is delta.call
    return last.call.index == delta.call.index


def _one_call(last: CallRef | None, call: CallRef | None) -> CallRef | None:
    if last is None or call is None:
        return last or call
    return replace(last, end=call.end)


def append_of(generation_id: str, running: Running, events: Sequence[Event]) -> Append:
    """Number `events` behind what is written."""
    return Append(
        generation_id=generation_id,
        epoch=running.claim.epoch,
        incarnation=running.claim.incarnation,
        first_seq=running.log.next_seq,
        events=tuple(events),
    )
