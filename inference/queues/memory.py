"""The queue in one process: its rules in plain Python, for tests and for reading.

The scripts in scripts/ do the same on Redis; the contract tests hold both to one behaviour. This
one never loses what it acknowledged, so nothing is ever numbered anew or found missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from inference.protocol.codec import encode_event
from inference.protocol.events import (
    CancelledBy,
    Delta,
    Entry,
    Event,
    Snapshot,
    Started,
    Terminal,
    Usage,
    is_terminal,
)
from inference.protocol.fold import fold
from inference.protocol.requests import EngineRequest
from inference.queues import terminals
from inference.queues.config import ENGINE_SHOWN_S, UTILITIES_A_CLAIM, busy, ms
from inference.queues.contract import (
    Append,
    AppendOutcome,
    Beat,
    BeatReply,
    Claim,
    Cursor,
    EngineStatus,
    FinishedEntry,
    Load,
    Position,
    QueueConfig,
    Read,
    Reaped,
    Status,
)
from inference.queues.facts import lane_of, needs_reader, snapshot_usage
from inference.queues.memory_state import Generation, Model
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

    def _model(self, name: str) -> Model:
        """The model with all that time alone changes brought up to date."""
        model = self._models.setdefault(name, Model())
        now = self._now()
        for generation in list(model.generations.values()):
            if generation.expires is not None and generation.expires <= now:
                del model.generations[generation.id]
        return model

    def _promote(self, model: Model) -> None:
        """Background requests that waited long enough go on as interactive ones."""
        oldest = self._now() - ms(self.config.background_age_s)
        aged = [
            generation
            for generation in model.in_state("queued")
            if generation.place == "background" and generation.submitted <= oldest
        ]
        for generation in aged:
            model.dequeue(generation)
            model.enqueue(generation, "interactive")

    def _bump(self, model: Model) -> None:
        model.mark += 1
        self._changed.notify_all()

    # --- callers

    def submit(self, request: EngineRequest, *, reader_id: str | None = None) -> Position:
        """See `Queue.submit`."""
        with self._lock:
            model = self._model(request.model)
            self._promote(model)
            known = model.generations.get(request.generation_id)
            if known is not None:
                if known.state == "queued":
                    return model.position(known)
                return Position(0, model.waiting.waiting("interactive"))
            self._refuse_if_busy(model, request.owner_key)
            now, submitted_at = self._now(), ms(request.submitted_at)
            model.number += 1
            generation = Generation(
                request=request,
                number=model.number,
                incarnation=1 if submitted_at >= self._started else now,
                owner=request.owner_key,
                submitted=now,
                deadline=ms(request.deadline_at),
            )
            if reader_id is not None and needs_reader(request):
                generation.reader_till = now + ms(self.config.reader_lease_s)
            model.generations[generation.id] = generation
            model.enqueue(generation, lane_of(request))
            self._bump(model)
            return model.position(generation)

    def _refuse_if_busy(self, model: Model, owner: str) -> None:
        if len(model.waiting) >= self.config.max_queued:
            raise busy("queue_full", self.config)
        owned = sum(item.owner == owner for item in model.in_state("queued"))
        if owned >= self.config.max_queued_per_owner:
            raise busy("owner_queue_full", self.config)
        if self._is_memory_full():
            raise busy("memory", self.config)

    def cancel(self, model: str, generation_id: str, by: CancelledBy) -> bool:
        """See `Queue.cancel`."""
        with self._lock:
            state = self._model(model)
            generation = state.generations.get(generation_id)
            if generation is None or generation.state == "ended":
                return False
            if generation.state == "queued":
                state.dequeue(generation)
                self._finish(generation, terminals.CANCELLED[by])
            elif generation.cancel is None:
                generation.cancel = by
            self._bump(state)
            return True

    def status(self, model: str, generation_id: str) -> Status | None:
        """See `Queue.status`."""
        with self._lock:
            state = self._model(model)
            generation = state.generations.get(generation_id)
            if generation is None:
                return None
            self._promote(state)
            return Status(
                state=generation.state,
                incarnation=generation.incarnation,
                last_seq=generation.last_seq,
                deaths=generation.deaths,
                epoch=generation.epoch,
                position=state.position(generation) if generation.state == "queued" else None,
                cancel_requested=generation.cancel,
            )

    def read(self, model: str, generation_id: str, cursor: Cursor, *, limit: int = 512) -> Read:
        """See `Queue.read`."""
        with self._lock:
            generation = self._model(model).generations.get(generation_id)
            if generation is None:
                return Read(cursor, gone=True)
            seq, folded = cursor.seq, generation.folded
            other = seq >= 0 and cursor.incarnation != generation.incarnation
            reset = folded if other or folded.seq > seq or seq > generation.last_seq else None
            if reset is not None:
                seq = reset.seq
            entries = tuple(entry for entry, _ in generation.entries if entry.seq > seq)[:limit]
            seq = entries[-1].seq if entries else seq
            return Read(Cursor(generation.incarnation, seq), entries, reset)

    def reader_renew(
        self, model: str, reader_id: str, generation_ids: Sequence[str]
    ) -> tuple[str, ...]:
        """See `Queue.reader_renew`."""
        with self._lock:
            known = self._model(model).generations
            unknown: list[str] = []
            for generation_id in generation_ids:
                generation = known.get(generation_id)
                if generation is None or generation.state == "ended":
                    unknown.append(generation_id)
                elif needs_reader(generation.request):
                    generation.reader_till = self._now() + ms(self.config.reader_lease_s)
            return tuple(unknown)

    def load(self, model: str) -> Load:
        """See `Queue.load`."""
        with self._lock:
            state = self._model(model)
            queued = state.in_state("queued")
            by_owner: dict[str, int] = {}
            for generation in queued:
                by_owner[generation.owner] = by_owner.get(generation.owner, 0) + 1
            return Load(
                waiting=len(queued),
                waiting_background=sum(item.lane == "background" for item in queued),
                running=len(state.in_state("running")),
                waiting_by_owner=by_owner,
            )

    def engines(self, model: str) -> tuple[EngineStatus, ...]:
        """See `Queue.engines`."""
        with self._lock:
            state, now = self._model(model), self._now()
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

    def claim(self, model: str, engine_id: str, *, slots: int, idle: bool) -> tuple[Claim, ...]:
        """See `Queue.claim`."""
        with self._lock:
            state = self._model(model)
            self._promote(state)
            self._sweep_waiting(state)
            running = state.in_state("running")
            if any(item.alone and item.engine == engine_id for item in running):
                slots = 0
            suspect = self._suspect_next(state)
            if suspect is not None and idle and slots > 0:
                state.dequeue(suspect)
                return (self._give(suspect, engine_id, alone=True),)
            ids = [state.waiting.lanes["utility"].pop() for _ in range(UTILITIES_A_CLAIM)]
            while slots > 0 and (next_id := self._pop(state)) is not None:
                ids.append(next_id)
                slots -= 1
            return tuple(
                self._give(state.generations[generation_id], engine_id, alone=False)
                for generation_id in ids
                if generation_id is not None
            )

    def _suspect_next(self, state: Model) -> Generation | None:
        """The first in line, if it has to run alone."""
        if not state.waiting.front:
            return None
        first = state.generations[state.waiting.front[0][1]]
        return first if first.deaths >= self.config.max_deaths else None

    def _pop(self, state: Model) -> str | None:
        # A suspect waits for an idle engine, and everything behind it waits with it: else a busy
        # engine would never be idle.
        if self._suspect_next(state) is not None:
            return None
        if state.waiting.front:
            return state.waiting.front.pop(0)[1]
        lanes = state.waiting.lanes
        return lanes["interactive"].pop() or lanes["background"].pop()

    def _give(self, generation: Generation, engine_id: str, *, alone: bool) -> Claim:
        now = self._now()
        generation.state, generation.engine, generation.alone = "running", engine_id, alone
        generation.epoch = max(now, generation.epoch + 1)
        generation.lease_till = now + ms(self.config.lease_s)
        generation.queued = now - generation.submitted
        log = fold(generation.folded, (entry for entry, _ in generation.entries))
        return Claim(
            request=generation.request,
            epoch=generation.epoch,
            incarnation=generation.incarnation,
            resume=log if log.seq >= 0 else None,
            alone=alone,
            queued_s=generation.queued / 1000,
        )

    def _owned(
        self, model: Model, engine_id: str, generation_id: str, epoch: int
    ) -> Generation | None:
        generation = model.generations.get(generation_id)
        if generation is None or generation.state != "running":
            return None
        held = generation.engine == engine_id and generation.epoch == epoch
        return generation if held else None

    def append(
        self, model: str, engine_id: str, batch: Sequence[Append]
    ) -> tuple[AppendOutcome, ...]:
        """See `Queue.append`."""
        with self._lock:
            state = self._model(model)
            return tuple(self._append(state, engine_id, item) for item in batch)

    def _append(self, state: Model, engine_id: str, item: Append) -> AppendOutcome:
        generation = self._owned(state, engine_id, item.generation_id, item.epoch)
        if generation is None:
            return "stale"
        wrong = item.incarnation != generation.incarnation
        if wrong or item.first_seq > generation.last_seq + 1:
            return "gap"
        for seq, event in enumerate(item.events, item.first_seq):
            if seq <= generation.last_seq:
                continue
            self._write(generation, event)
            if is_terminal(event):
                self._close(generation)
                return "ok"
        return "full" if generation.size > self.config.stream_bytes else "ok"

    def _write(self, generation: Generation, event: Event) -> None:
        entry = Entry(generation.last_seq + 1, event)
        generation.entries.append((entry, len(encode_event(event).encode())))
        usage = generation.usage
        if isinstance(event, Delta):
            done = usage.completion_tokens + len(event.token_ids)
            generation.usage = Usage(usage.prompt_tokens, done, usage.cached_tokens)
        elif isinstance(event, Started) and not usage.prompt_tokens:
            generation.usage = Usage(
                event.prompt_tokens, usage.completion_tokens, event.cached_tokens
            )

    def fold(
        self, model: str, engine_id: str, generation_id: str, epoch: int, snapshot: Snapshot
    ) -> bool:
        """See `Queue.fold`."""
        with self._lock:
            generation = self._owned(self._model(model), engine_id, generation_id, epoch)
            if generation is None:
                return False
            if generation.folded.seq < snapshot.seq <= generation.last_seq:
                self._set_folded(generation, snapshot)
            return True

    def _set_folded(self, generation: Generation, snapshot: Snapshot) -> None:
        generation.folded = snapshot
        generation.entries = [item for item in generation.entries if item[0].seq > snapshot.seq]

    def restore(self, engine_id: str, claim: Claim, snapshot: Snapshot) -> bool:
        """See `Queue.restore`. Nothing is lost here, so this only folds."""
        with self._lock:
            generation_id = claim.request.generation_id
            state = self._model(claim.request.model)
            generation = self._owned(state, engine_id, generation_id, claim.epoch)
            if generation is None:
                return False
            generation.folded, generation.entries = snapshot, []
            generation.usage = snapshot_usage(snapshot)
            generation.incarnation = claim.incarnation
            generation.lease_till = self._now() + ms(self.config.lease_s)
            if snapshot.terminal is not None:
                self._close(generation)
            return True

    def release(self, model: str, engine_id: str, generation_id: str, epoch: int) -> bool:
        """See `Queue.release`."""
        with self._lock:
            state = self._model(model)
            generation = self._owned(state, engine_id, generation_id, epoch)
            if generation is None:
                return False
            self._take_back(state, generation, died=False)
            self._bump(state)
            return True

    def beat(self, model: str, beat: Beat) -> BeatReply:
        """See `Queue.beat`."""
        with self._lock:
            state, now = self._model(model), self._now()
            state.engines[beat.engine_id] = (now, beat)
            lost: list[str] = []
            cancelled: list[tuple[str, CancelledBy]] = []
            for generation_id, epoch in beat.running:
                generation = self._owned(state, beat.engine_id, generation_id, epoch)
                if generation is None:
                    lost.append(generation_id)
                    continue
                generation.lease_till = now + ms(self.config.lease_s)
                if generation.cancel is None and self._readers_gone(generation):
                    generation.cancel = "reader_gone"
                if generation.cancel is not None:
                    cancelled.append((generation_id, generation.cancel))
            return BeatReply(tuple(lost), tuple(cancelled))

    # --- ends

    def _readers_gone(self, generation: Generation) -> bool:
        return generation.reader_till is not None and generation.reader_till <= self._now()

    def _finish(self, generation: Generation, terminal: Terminal) -> None:
        """The queue's own end of a generation that no engine holds."""
        self._write(generation, terminals.with_usage(terminal, generation.usage))
        self._close(generation)

    def _close(self, generation: Generation) -> None:
        generation.state, generation.engine = "ended", ""
        generation.ended = self._now()
        keep_s = (
            self.config.unfinalised_keep_s if generation.on_finish else self.config.ended_keep_s
        )
        generation.expires = generation.ended + ms(keep_s)

    def _sweep_waiting(self, state: Model) -> Reaped:
        """End what waits past its deadline or without a reader."""
        failed: list[Generation] = []
        cancelled: list[Generation] = []
        for generation in state.in_state("queued"):
            if generation.deadline <= self._now():
                failed.append(generation)
            elif self._readers_gone(generation):
                cancelled.append(generation)
        failed.sort(key=lambda item: (item.deadline, item.id))
        cancelled.sort(key=lambda item: (item.reader_till or 0, item.id))
        for generation in (*failed, *cancelled):
            state.dequeue(generation)
            late = generation in failed
            self._finish(
                generation, terminals.DEADLINE if late else terminals.CANCELLED["reader_gone"]
            )
        return Reaped((), tuple(x.id for x in failed), tuple(x.id for x in cancelled))

    def _take_back(self, state: Model, generation: Generation, *, died: bool) -> str:
        """A lease is over: back to the front, or the end; returns what became of it."""
        generation.deaths += died
        if generation.cancel is not None:
            self._finish(generation, terminals.CANCELLED[generation.cancel])
            return "cancelled"
        if self._readers_gone(generation):
            self._finish(generation, terminals.CANCELLED["reader_gone"])
            return "cancelled"
        if generation.deaths > self.config.max_deaths:
            self._finish(generation, terminals.CRASHED)
            return "failed"
        if generation.deadline <= self._now():
            self._finish(generation, terminals.DEADLINE)
            return "failed"
        state.enqueue(generation, "utility" if generation.lane == "utility" else "front")
        return "requeued"

    # --- sweep and supervisor

    def reap(self, model: str) -> Reaped:
        """See `Queue.reap`."""
        with self._lock:
            state = self._model(model)
            out: dict[str, list[str]] = {"requeued": [], "failed": [], "cancelled": []}
            running = sorted(state.in_state("running"), key=lambda x: (x.lease_till, x.id))
            for generation in running:
                if generation.lease_till <= self._now():
                    out[self._take_back(state, generation, died=True)].append(generation.id)
            swept = self._sweep_waiting(state)
            if out["requeued"]:
                self._bump(state)
            return Reaped(
                requeued=tuple(out["requeued"]),
                failed=(*out["failed"], *swept.failed),
                cancelled=(*out["cancelled"], *swept.cancelled),
            )

    def engine_gone(self, model: str, engine_id: str, *, death: bool = True) -> tuple[str, ...]:
        """See `Queue.engine_gone`."""
        with self._lock:
            state = self._model(model)
            running = sorted(state.in_state("running"), key=lambda x: (x.lease_till, x.id))
            held = [generation for generation in running if generation.engine == engine_id]
            for generation in held:
                self._take_back(state, generation, died=death)
            state.engines.pop(engine_id, None)
            self._bump(state)
            return tuple(generation.id for generation in held)

    def fail_queued(self, model: str, terminal: Terminal) -> tuple[str, ...]:
        """See `Queue.fail_queued`."""
        with self._lock:
            state = self._model(model)
            queued = state.in_state("queued")
            for generation in queued:
                state.dequeue(generation)
                self._finish(generation, terminal)
            return tuple(generation.id for generation in queued)

    def finished(self, *, limit: int = 100) -> tuple[tuple[str, FinishedEntry], ...]:
        """See `Queue.finished`."""
        with self._lock:
            found = [
                (generation.ended, name, generation.id, generation.on_finish)
                for name in self._models
                for generation in self._model(name).in_state("ended")
                if generation.on_finish and not generation.acked
            ]
            return tuple(
                (name, FinishedEntry(generation_id, on_finish))
                for _, name, generation_id, on_finish in sorted(found)[:limit]
            )

    def finished_ack(self, model: str, generation_id: str) -> None:
        """See `Queue.finished_ack`."""
        with self._lock:
            generation = self._model(model).generations.get(generation_id)
            if generation is None or generation.state != "ended" or generation.acked:
                return
            generation.acked = True
            if generation.on_finish:
                generation.expires = self._now() + ms(self.config.ended_keep_s)

    # --- waiting

    def wait_control(self, model: str, after: str, timeout_s: float) -> str:
        """See `Queue.wait_control`."""
        with self._lock:
            state = self._model(model)
            if after:
                self._changed.wait_for(lambda: state.mark > int(after), timeout_s)
            return str(state.mark)
