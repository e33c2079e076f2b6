"""The queue in one process: its rules in plain Python, for tests and for reading.

The scripts in scripts/ do the same on Redis; the contract tests hold both to one behaviour. This
one never loses what it acknowledged, so nothing is ever numbered anew or found missing. Who is
next is in `fairness`, how things end in `memory_model`, the log in `memory_state`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from inference.protocol.codec import encode_request
from inference.protocol.events import CancelledBy, Snapshot, Terminal
from inference.protocol.requests import EngineRequest
from inference.queues import terminals
from inference.queues.config import ENGINE_SHOWN_S, ms
from inference.queues.contract import (
    UTILITIES_A_CLAIM,
    Append,
    AppendOutcome,
    Beat,
    BeatReply,
    CachePurge,
    Claim,
    Cursor,
    EngineStatus,
    FinishedEntry,
    Load,
    Position,
    QueueConfig,
    Read,
    Reaped,
    ReasoningEnd,
    Status,
    UsageEntry,
)
from inference.queues.facts import lane_of, needs_reader
from inference.queues.memory_model import Model
from inference.queues.memory_state import Generation
from llamaweb.lib.clock import Clock, SystemClock


def _never_full() -> bool:
    return False


class MemoryQueue:
    """`Queue` in this process; safe to share between threads.

    `is_memory_full` stands for the byte budget.
    """

    def __init__(
        self,
        config: QueueConfig | None = None,
        clock: Clock | None = None,
        *,
        is_memory_full: Callable[[], bool] = _never_full,
    ) -> None:
        self.config = config or QueueConfig()
        self._clock = clock or SystemClock()
        self._is_memory_full = is_memory_full
        self._models: dict[str, Model] = {}
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._started = self._now()

    def _now(self) -> int:
        return ms(self._clock.wall())

    @contextmanager
    def _model(self, name: str) -> Iterator[Model]:
        """The model, locked, without what has expired."""
        with self._lock:
            model = self._models.setdefault(name, Model(self.config))
            model.forget_expired(self._now())
            yield model

    def _bump(self, model: Model) -> None:
        model.mark += 1
        self._changed.notify_all()

    # --- callers

    def submit(self, request: EngineRequest, *, reader_id: str | None = None) -> Position:
        """See `Queue.submit`."""
        with self._model(request.model) as model:
            now, submitted_at = self._now(), ms(request.submitted_at)
            model.awake(now)
            model.promote(now)
            known = model.generations.get(request.generation_id)
            if known is not None:
                if known.state == "queued":
                    return model.position(known)
                return Position(0, model.waiting.waiting("interactive"))
            size = len(encode_request(request).encode())
            model.refuse_if_busy(request.owner_key, size, self._is_memory_full())
            model.number += 1
            generation = Generation(
                request=request,
                number=model.number,
                incarnation=1 if submitted_at >= self._started else now,
                submitted=now,
                deadline=ms(request.deadline_at),
            )
            if reader_id is not None and needs_reader(request):
                generation.renew_reader(now + ms(self.config.reader_lease_s))
            model.generations[generation.id] = generation
            model.enqueue(generation, lane_of(request))
            self._bump(model)
            return model.position(generation)

    def cancel(self, model: str, generation_id: str, by: CancelledBy) -> bool:
        """See `Queue.cancel`."""
        with self._model(model) as state:
            generation = state.generations.get(generation_id)
            if generation is None or generation.state == "ended":
                return False
            if generation.state == "queued":
                state.dequeue(generation)
                state.finish(generation, terminals.CANCELLED[by], self._now())
            elif generation.cancel is None:
                generation.cancel = by
            self._bump(state)
            return True

    def end_reasoning(self, model: str, reply_id: str, owner_key: str) -> ReasoningEnd:
        """See `Queue.end_reasoning`."""
        with self._model(model) as state:
            outcome = state.end_reasoning(reply_id, owner_key)
            if outcome == "ok":
                self._bump(state)
            return outcome

    def status(self, model: str, generation_id: str) -> Status | None:
        """See `Queue.status`."""
        with self._model(model) as state:
            generation = state.generations.get(generation_id)
            if generation is None:
                return None
            state.promote(self._now())
            return Status(
                state=generation.state,
                incarnation=generation.incarnation,
                last_seq=generation.last_seq,
                deaths=generation.deaths,
                epoch=generation.epoch,
                position=state.position(generation) if generation.state == "queued" else None,
                cancel_requested=generation.cancel,
                ended_at=generation.ended / 1000 if generation.state == "ended" else None,
            )

    def read(self, model: str, generation_id: str, cursor: Cursor, *, limit: int = 512) -> Read:
        """See `Queue.read`."""
        with self._model(model) as state:
            generation = state.generations.get(generation_id)
            if generation is None:
                return Read(cursor, gone=True)
            return generation.read(cursor, limit)

    def reader_renew(
        self, model: str, reader_id: str, generation_ids: Sequence[str]
    ) -> tuple[str, ...]:
        """See `Queue.reader_renew`."""
        with self._model(model) as state:
            now = self._now()
            state.awake(now)
            unknown: list[str] = []
            for generation_id in generation_ids:
                generation = state.generations.get(generation_id)
                if generation is None or generation.state == "ended":
                    unknown.append(generation_id)
                elif needs_reader(generation.request):
                    generation.renew_reader(now + ms(self.config.reader_lease_s))
            return tuple(unknown)

    def purge(self, model: str, purge: CachePurge) -> None:
        """See `Queue.purge`."""
        with self._model(model) as state:
            state.order(purge, self._now())
            self._bump(state)

    def load(self, model: str) -> Load:
        """See `Queue.load`."""
        with self._model(model) as state:
            queued = state.in_state("queued")
            asked = [item.submitted for item in queued if item.lane != "background"]
            return Load(
                waiting=len(queued),
                waiting_background=sum(item.lane == "background" for item in queued),
                running=len(state.in_state("running")),
                waiting_by_owner=dict(Counter(item.owner for item in queued)),
                oldest_wait_s=max(0, self._now() - asked[0]) / 1000 if asked else 0.0,
            )

    def engines(self, model: str) -> tuple[EngineStatus, ...]:
        """See `Queue.engines`."""
        with self._model(model) as state:
            now = self._now()
            for engine_id, (at, _) in list(state.engines.items()):
                if at <= now - ms(ENGINE_SHOWN_S):
                    del state.engines[engine_id]
            return tuple(
                EngineStatus(
                    engine_id=beat.engine_id,
                    state=beat.state,
                    steps=beat.steps,
                    running=len(beat.running),
                    age_s=(now - at) / 1000,
                    waiting_for_step=beat.waiting_for_step,
                    info=dict(beat.info),
                )
                for _, (at, beat) in sorted(state.engines.items())
            )

    def models(self) -> tuple[str, ...]:
        """See `Queue.models`."""
        with self._lock:
            return tuple(sorted(name for name, model in self._models.items() if model.number))

    # --- engines

    def claim(
        self,
        model: str,
        engine_id: str,
        *,
        slots: int,
        idle: bool,
        utilities: int = UTILITIES_A_CLAIM,
    ) -> tuple[Claim, ...]:
        """See `Queue.claim`."""
        with self._model(model) as state:
            now = self._now()
            state.awake(now)
            state.promote(now)
            state.sweep_waiting(now)
            return state.claim(engine_id, slots, idle, utilities, now)

    def append(
        self, model: str, engine_id: str, batch: Sequence[Append]
    ) -> tuple[AppendOutcome, ...]:
        """See `Queue.append`."""
        with self._model(model) as state:
            return tuple(self._append(state, engine_id, item) for item in batch)

    def _append(self, state: Model, engine_id: str, item: Append) -> AppendOutcome:
        generation = state.held(engine_id, item.generation_id, item.epoch)
        if generation is None:
            return "stale"
        outcome = generation.append(item, self.config.stream_bytes)
        if generation.has_end():
            state.close(generation, self._now())
        return outcome

    def fold(
        self, model: str, engine_id: str, generation_id: str, epoch: int, snapshot: Snapshot
    ) -> bool:
        """See `Queue.fold`."""
        with self._model(model) as state:
            generation = state.held(engine_id, generation_id, epoch)
            if generation is None:
                return False
            generation.fold(snapshot)
            return True

    def restore(self, engine_id: str, claim: Claim, snapshot: Snapshot) -> bool:
        """See `Queue.restore`. Nothing is lost here, so the log is only replaced."""
        with self._model(claim.request.model) as state:
            generation = state.held(engine_id, claim.request.generation_id, claim.epoch)
            if generation is None:
                return False
            generation.folded, generation.entries = snapshot, []
            state.restore(generation, claim, self._now())
            return True

    def release(self, model: str, engine_id: str, generation_id: str, epoch: int) -> bool:
        """See `Queue.release`."""
        with self._model(model) as state:
            now = self._now()
            generation = state.held(engine_id, generation_id, epoch)
            if generation is None:
                return False
            state.awake(now)
            state.take_back(generation, now, died=False)
            self._bump(state)
            return True

    def beat(self, model: str, beat: Beat) -> BeatReply:
        """See `Queue.beat`."""
        with self._model(model) as state:
            now = self._now()
            state.awake(now)
            state.engines[beat.engine_id] = (now, beat)
            lost: list[str] = []
            cancelled: list[tuple[str, CancelledBy]] = []
            ended: list[str] = []
            for generation_id, epoch in beat.running:
                generation = state.held(beat.engine_id, generation_id, epoch)
                if generation is None:
                    lost.append(generation_id)
                    continue
                generation.renew_lease(now + ms(self.config.lease_s))
                if generation.cancel is None and generation.has_no_reader(now):
                    generation.cancel = "reader_gone"
                if generation.cancel is not None:
                    cancelled.append((generation_id, generation.cancel))
                if generation.reasoning_ended:
                    ended.append(generation_id)
            purges, mark = state.purges_since(beat.mark, now), str(state.num_purges)
            return BeatReply(tuple(lost), tuple(cancelled), purges, mark, tuple(ended))

    # --- sweep and supervisor

    def reap(self, model: str) -> Reaped:
        """See `Queue.reap`."""
        with self._model(model) as state:
            now = self._now()
            state.awake(now)
            fates = {
                generation.id: state.take_back(generation, now, died=True)
                for generation in state.in_state("running")
                if generation.lease_till <= now
            }
            swept = state.sweep_waiting(now)
            if "requeued" in fates.values():
                self._bump(state)
            return Reaped(
                requeued=tuple(x for x, fate in fates.items() if fate == "requeued"),
                failed=(*(x for x, fate in fates.items() if fate == "failed"), *swept.failed),
                cancelled=(
                    *(x for x, fate in fates.items() if fate == "cancelled"),
                    *swept.cancelled,
                ),
            )

    def engine_gone(self, model: str, engine_id: str, *, death: bool = True) -> tuple[str, ...]:
        """See `Queue.engine_gone`."""
        with self._model(model) as state:
            now = self._now()
            state.awake(now)
            held = [item for item in state.in_state("running") if item.engine == engine_id]
            for generation in held:
                state.take_back(generation, now, died=death)
            state.engines.pop(engine_id, None)
            if held:
                self._bump(state)
            return tuple(generation.id for generation in held)

    def fail_queued(self, model: str, terminal: Terminal) -> tuple[str, ...]:
        """See `Queue.fail_queued`."""
        with self._model(model) as state:
            queued = state.in_state("queued")
            for generation in queued:
                state.dequeue(generation)
                state.finish(generation, terminal, self._now())
            return tuple(generation.id for generation in queued)

    def finished(self, *, limit: int = 100) -> tuple[tuple[str, FinishedEntry], ...]:
        """See `Queue.finished`."""
        found: list[tuple[int, str, str, str]] = []
        with self._lock:
            for name in list(self._models):
                with self._model(name) as state:
                    found += [
                        (item.ended, name, item.id, item.on_finish)
                        for item in state.in_state("ended")
                        if item.on_finish and not item.acked
                    ]
        return tuple(
            (name, FinishedEntry(generation_id, on_finish))
            for _, name, generation_id, on_finish in sorted(found)[:limit]
        )

    def finished_ack(self, model: str, generation_id: str) -> None:
        """See `Queue.finished_ack`."""
        with self._model(model) as state:
            generation = state.generations.get(generation_id)
            if generation is None or generation.state != "ended" or generation.acked:
                return
            generation.acked = True
            if generation.on_finish:
                generation.expires = self._now() + ms(self.config.ended_keep_s)

    def usage(self, model: str, *, limit: int = 500) -> tuple[UsageEntry, ...]:
        """See `Queue.usage`."""
        with self._model(model) as state:
            return tuple(state.usage)[:limit]

    def usage_ack(self, model: str, marks: Sequence[str]) -> None:
        """See `Queue.usage_ack`."""
        with self._model(model) as state:
            state.usage_ack(marks)

    # --- waiting

    def wait_control(self, model: str, after: str, timeout_s: float) -> str:
        """See `Queue.wait_control`."""
        with self._model(model) as state:
            if after:
                self._changed.wait_for(lambda: state.mark > int(after), timeout_s)
            return str(state.mark)
