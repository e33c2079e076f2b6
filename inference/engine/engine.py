"""The engine: schedule → decode → sample → detokenise → stop rules, one batch a step."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping

from inference.engine import admission
from inference.engine.adapters import Adapter, Scales
from inference.engine.backend import Backend
from inference.engine.batch import Batch, count_ubatches
from inference.engine.cache_check import CacheCheck
from inference.engine.config import EngineConfig
from inference.engine.constraints import ConstrainedSampler
from inference.engine.context_shift import ContextShift
from inference.engine.contract import EngineEvent, SequenceRequest
from inference.engine.costs import CacheCosts
from inference.engine.errors import NoRoomError
from inference.engine.gaps import GapCloser
from inference.engine.leaders import find_leader
from inference.engine.picking import Outcome, Picker
from inference.engine.prompt_cache import PromptCache
from inference.engine.reuse import Reuse
from inference.engine.room import last_asked, no_room, shrink
from inference.engine.roster import Roster
from inference.engine.scheduler import PrefillScheduler, Work
from inference.engine.sequence import Phase, Sequence
from inference.engine.stats import EngineStats, StepRecord
from inference.engine.stopping import Ended
from inference.engine.threads import ThreadGovernor, ThreadsInUse
from inference.engine.timings import PrefillPace
from inference.engine.trace import Trace
from inference.protocol.events import Cancelled, CancelledBy, Delta, Progress, Started
from llamaweb.lib.clock import Clock, SystemClock

logger = logging.getLogger(__name__)


class Engine:
    """A `StepEngine` over any backend. Nothing here blocks but the backend's `decode`, and after a
    pause a short look at the cores (`ThreadsInUse`)."""

    def __init__(
        self,
        backend: Backend,
        config: EngineConfig | None = None,
        clock: Clock | None = None,
        *,
        threads: ThreadGovernor | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._backend = backend
        self._config = config or EngineConfig()
        self._clock = clock or SystemClock()
        self._scales: Scales | None = ()  # in use; None: nobody knows
        self._scheduler = PrefillScheduler(self._config)
        self._pace = PrefillPace(
            self._config, batch_len=backend.batch_len, ubatch_len=backend.ubatch_len
        )
        self._costs = CacheCosts(self._pace)
        self._cache = PromptCache(backend, self._config, self._costs, self._clock)
        self._table = self._cache.table
        self._gaps = GapCloser(self._cache, self._pace, self._costs)
        self._check = CacheCheck(backend, self._cache) if self._config.verify_cache else None
        self._batch = Batch(backend.batch_len)
        self._picker = Picker(backend.tokenizer, self._config)
        self._shift = ContextShift(backend, self._cache, wanted=self._config.context_shift)
        if self._config.context_shift and not self._shift.is_on:
            logger.warning("this context can't be shifted: a full one ends the answer")
        self._threads = ThreadsInUse(backend, threads)
        self._trace = trace
        self._stats = EngineStats()
        self._roster = Roster(
            self._cache, self._stats, self._clock, max_context=backend.max_context, trace=trace
        )
        self._active = self._roster.active
        self._arrivals = 0
        self.last_step = StepRecord()

    # --- the contract

    @property
    def max_context(self) -> int:
        """See `StepEngine.max_context`."""
        return self._backend.max_context

    @property
    def adapters(self) -> tuple[Adapter, ...]:
        """See `StepEngine.adapters`."""
        return self._backend.adapters

    @property
    def free_slots(self) -> int:
        """See `StepEngine.free_slots`; 0 while a sequence runs alone."""
        if any(sequence.request.alone for sequence in self._active.values()):
            return 0
        return self._table.num_idle

    @property
    def has_work(self) -> bool:
        """See `StepEngine.has_work`."""
        return bool(self._active)

    def add(self, request: SequenceRequest) -> None:
        """See `StepEngine.add`; the sequence begins with the next step."""
        admission.refuse_busy(request, self._active, self.free_slots)
        admission.refuse_invalid(request, self._backend)
        prepared = admission.prepare(
            request,
            self._backend,
            shifts=self._shift.is_on,
            special=self._config.special_tokens,
        )
        slot = self._cache.seat(request, prepared.belonging, prepared.prefix)
        self._arrivals += 1
        sequence = Sequence(
            request=request,
            slot=slot,
            target=prepared.target,
            prefix=prepared.prefix,
            belonging=prepared.belonging,
            adapters=prepared.adapters,
            sampler=prepared.sampler,
            answer=prepared.answer,
            replayed_end=prepared.replayed_end,
            replay=deque(prepared.replay),
            arrival=self._arrivals,
            served_step=self._roster.step,
        )
        self._roster.join(sequence)

    def abort(self, generation_id: str, by: CancelledBy) -> list[EngineEvent]:
        """See `StepEngine.abort`."""
        sequence = self._active.get(generation_id)
        if sequence is None:
            return []
        self._roster.end(sequence, Cancelled(by, sequence.usage()))
        return self._roster.take_events()

    def drop(self, generation_id: str) -> None:
        """See `StepEngine.drop`."""
        sequence = self._active.get(generation_id)
        if sequence is not None:
            self._roster.leave(sequence)

    def end_reasoning(self, generation_id: str) -> None:
        """See `StepEngine.end_reasoning`."""
        sequence = self._active.get(generation_id)
        if sequence is not None and isinstance(sequence.sampler, ConstrainedSampler):
            sequence.sampler.end_reasoning()

    def step(self, *, prompts: bool = True) -> list[EngineEvent]:
        """See `StepEngine.step`; without `prompts` these wait while answers are being written."""
        self._roster.step += 1
        started_ts = self._clock.monotonic()
        self._threads.follow(started_ts)
        self._gaps.close(self._active.values())
        self._begin_waiting()
        work = self._schedule(prompts=prompts)
        if work:
            done = self._decode(work)
            self._advance(done)
            if done:
                self._measure(started_ts)
        return self._roster.take_events()

    def _measure(self, started_ts: float) -> None:
        ended_ts = self._clock.monotonic()
        self._threads.computed(ended_ts)
        self._stats.add_time(self.last_step, ended_ts - started_ts)
        if self._trace is not None:
            self._trace.step(started_ts, ended_ts, self.last_step)

    def stats(self) -> Mapping[str, float | int]:
        """See `StepEngine.stats`; keys in `EngineStats`."""
        running = sum(seq.phase is not Phase.WAITING for seq in self._active.values())
        return self._stats.as_mapping(
            running=running,
            waiting=len(self._active) - running,
            free_slots=self.free_slots,
            shifts=self._shift.num_shifts,
            threads=self._threads.num,
            prefill_rate=self._pace.rate,
            graphs_reused=self._backend.graphs_reused,
            **self._cache.stats.as_mapping(),
            **self._cache.gauges(),
        )

    def purge(self, *, owner_key: str | None = None, conversation: str | None = None) -> int:
        """See `StepEngine.purge`."""
        return self._cache.purge(owner_key=owner_key, conversation=conversation)

    def close(self) -> None:
        """See `StepEngine.close`."""
        for sequence in list(self._active.values()):
            self._roster.leave(sequence)
        self._threads.close()
        if self._trace is not None:
            self._trace.close()
        self._picker.close()
        self._backend.close()

    # --- schedule

    def _begin_waiting(self) -> None:
        """Start what needn't wait for somebody else to compute its prefix."""
        waiting = [seq for seq in self._active.values() if seq.phase is Phase.WAITING]
        for sequence in sorted(waiting, key=lambda seq: (seq.lane_rank, seq.arrival)):
            if sequence.replayed_end is not None:
                self._roster.emit(sequence, Started(sequence.prompt_len, 0))
                self._roster.finish(sequence, sequence.replayed_end)
                continue
            if not self._fits(sequence):
                break  # nobody may overtake it: it would wait for ever
            reuse = self._cache.plan(sequence)
            others = self._active.values() if self._backend.can_share else ()
            leader = find_leader(sequence, others, reuse.length, self._config.copy_min_len)
            sequence.has_leader = leader is not None
            if leader is None and not (self._cache.must_wait(sequence, reuse) and self._is_busy()):
                self._begin(sequence, reuse)

    def _fits(self, sequence: Sequence) -> bool:
        """Whether a shared pool has room for its prompt beside those that others began with."""
        if not self._backend.is_unified:
            return True
        begun = [seq for seq in self._active.values() if seq.phase is not Phase.WAITING]
        held = sum(seq.slot.length + max(0, seq.remaining) for seq in begun)
        return not begun or held + len(sequence.target) < self._backend.pool_len

    def _is_busy(self) -> bool:
        """Whether this step will decode, and carry pending copies out."""
        return any(seq.phase is not Phase.WAITING for seq in self._active.values())

    def _begin(self, sequence: Sequence, reuse: Reuse) -> None:
        slot = sequence.slot
        self._cache.begin(sequence, reuse)
        self._backend.begin(slot.seq_id, sequence.request)
        sequence.clock.begun_ts = self._clock.monotonic()
        self._roster.enter(sequence, Phase.PREFILL)
        sequence.cached_tokens = min(slot.length, sequence.prompt_len)
        self._stats.cached_tokens += sequence.cached_tokens
        self._roster.emit(sequence, Started(sequence.prompt_len, sequence.cached_tokens))

    def _schedule(self, *, prompts: bool) -> list[Work]:
        """One token of everybody who decodes, and prompt pieces for the rest of the step."""
        active = self._active.values() if self._roster.turns.is_one else self._one_group()
        decoding = [seq for seq in active if seq.phase is Phase.DECODE]
        prefilling = [seq for seq in active if seq.phase is Phase.PREFILL]
        if self._shift.is_on:
            self._shift.make_room(decoding)
        work = [Work(seq, 1, True) for seq in decoding]
        if prefilling and (prompts or not decoding):
            budget = self._pace.budget(num_decode=len(decoding))
            slack = self._pace.slack(budget, num_decode=len(decoding))
            pieces = self._scheduler.choose(
                prefilling, budget=budget, step=self._roster.step, slack=slack
            )
            work += [
                Work(seq, num, num == seq.remaining and not seq.answer.is_full)
                for seq, num in pieces
            ]
        # Ascending ids: consecutive ones share a pass over the weights.
        work.sort(key=lambda item: item.sequence.slot.seq_id)
        return work

    def _one_group(self) -> list[Sequence]:
        """Sequences that may share a batch; groups take turns."""
        begun = [seq for seq in self._active.values() if seq.phase is not Phase.WAITING]
        return self._roster.turns.choose(begun, step=self._roster.step) if begun else []

    # --- decode

    def _decode(self, work: list[Work]) -> list[Work]:
        """Compute `work`, or as much of it as there is room for; returns what was computed."""
        self._fill_batch(work)
        scales = work[0].sequence.scales
        started_ts = self._clock.monotonic()
        has_pending = self._cache.has_pending
        try:
            if scales != self._scales:
                self._scales = None
                self._backend.use_adapters(scales)
                self._scales = scales
            self._backend.decode(self._batch)
        except NoRoomError:
            less = self._make_room(work)
            return self._decode(less) if less else []
        except Exception as error:
            # Only the type: a message may hold prompt text.
            logger.error("decode of %d rows failed: %s", self._batch.num_rows, type(error).__name__)
            self._fail_batch(work)
            return []
        self._record(work, self._clock.monotonic() - started_ts, has_pending=has_pending)
        return work

    def _make_room(self, work: list[Work]) -> list[Work]:
        """See `room`; returns what to try next, which always asks for less."""
        if self._cache.evict_one():
            return work
        less = shrink(work)
        if less:
            self._stats.shrunk_steps += 1
            return less
        sequence = last_asked(self._active.values())
        self._roster.end(sequence, no_room(sequence, self._backend.pool_len))
        return [item for item in work if item.sequence is not sequence]

    def _fill_batch(self, work: list[Work]) -> None:
        batch = self._batch
        batch.clear()
        for item in work:
            sequence, slot = item.sequence, item.sequence.slot
            if sequence.phase is Phase.DECODE:
                batch.add_token(slot.seq_id, sequence.next_token, slot.length)
            else:
                piece = sequence.target[slot.length : slot.length + item.num]
                batch.add_piece(slot.seq_id, piece, slot.length, item.wants_token)

    def _fail_batch(self, work: list[Work]) -> None:
        for item in work:
            slot = item.sequence.slot
            self._cache.empty(slot)
            self._roster.fail(item.sequence)

    def _record(self, work: list[Work], elapsed_s: float, *, has_pending: bool) -> None:
        num_decode = sum(item.sequence.phase is Phase.DECODE for item in work)
        num_prompt = self._batch.num_rows - num_decode
        ubatches = count_ubatches(
            self._batch.runs, self._backend.ubatch_len, is_unified=self._backend.is_unified
        )
        if has_pending:
            expected_s = self._pace.expected_s(num_prompt=num_prompt, num_decode=num_decode)
            self._cache.decoded(excess_s=elapsed_s - expected_s)
        else:
            self._pace.observe(num_prompt=num_prompt, num_decode=num_decode, elapsed_s=elapsed_s)
        self._gaps.note(is_apart=num_prompt == 0 and ubatches > 1 and self._backend.can_share)
        self.last_step = StepRecord(num_decode, num_prompt, ubatches, elapsed_s)
        self._stats.add_step(self.last_step, self._batch.capacity)

    # --- sample, detokenise, stop

    def _advance(self, work: list[Work]) -> None:
        answering: list[Sequence] = []
        for item in work:
            sequence = item.sequence
            if sequence.phase is Phase.DECODE:
                sequence.slot.append(sequence.next_token)
            else:
                self._advance_prompt(item)
            if item.wants_token:
                if self._check is not None:
                    self._check.remember(sequence, len(answering))
                answering.append(sequence)
        outcomes = self._picker.pick_all([seq.row for seq in answering], self._backend.logits)
        for sequence, outcome in zip(answering, outcomes, strict=True):
            self._advance_answer(sequence, outcome)
        if self._check is not None:
            self._check.run()
            self._scales = None

    def _advance_prompt(self, item: Work) -> None:
        sequence, slot = item.sequence, item.sequence.slot
        is_whole = slot.length == sequence.cached_tokens and item.num == sequence.remaining
        is_behind_prompt = slot.length >= sequence.prompt_len  # only after a resume
        slot.extend(sequence.target[slot.length : slot.length + item.num])
        self._cache.advance(slot)
        if not is_whole and not is_behind_prompt:
            done = min(slot.length, sequence.prompt_len)
            self._roster.emit(sequence, Progress(done, sequence.prompt_len))
        if sequence.remaining == 0:
            self._roster.enter(sequence, Phase.DECODE)
            sequence.clock.first_token_ts = self._clock.monotonic()
            if sequence.answer.is_full:  # max_tokens 0
                self._roster.finish(sequence, Ended("length"))

    def _advance_answer(self, sequence: Sequence, outcome: Outcome) -> None:
        try:
            if isinstance(outcome, Exception):
                raise outcome
            if sequence.replay:  # known to the reader; only the sampler had to see the logits
                sequence.next_token = sequence.replay.popleft()
                sequence.sampler.accept(sequence.next_token)
                return
            token = outcome.token_id
            text, ended = sequence.answer.push(token, is_late=sequence.is_late(self._clock))
            if ended is None:
                sequence.sampler.accept(token)
        except Exception as error:
            logger.error("a token couldn't be made: %s", type(error).__name__)
            self._roster.fail(sequence, error)
            return
        sequence.next_token = token
        is_end_token = ended is not None and self._backend.tokenizer.is_end(token)
        token_ids = () if is_end_token else (token,)
        self._stats.generated_tokens += len(token_ids)
        if token_ids or text:
            self._roster.emit(
                sequence, Delta(text, token_ids, outcome.draws, logprobs=outcome.logprobs)
            )
        if ended is not None:
            self._roster.finish(sequence, ended)
