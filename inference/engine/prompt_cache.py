"""What a prompt may reuse of the work already done, and where that is kept.

Two tiers: the slots of the context, and states of evicted sequences in ordinary memory. The rule
of scopes: text is shared inside its `cache_scope`; across scopes only the server's own text is, so
nobody can learn from a count or from timing what somebody else asked.

A copy between streams is carried out by the next decode. Until then no state is read from its
target or written to either side: the one would read stale cells, the other be overwritten.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inference.engine.backend import Backend
from inference.engine.config import EngineConfig
from inference.engine.contract import SequenceRequest
from inference.engine.costs import CacheCosts
from inference.engine.host_cache import Belonging, HostCache, StoredState
from inference.engine.prefix import CacheKey, Prefix, of_tokens
from inference.engine.radix import RadixIndex, common_len
from inference.engine.sequence import Phase, Sequence
from inference.engine.shifting import find_cuts
from inference.engine.slots import Slot, SlotTable
from inference.engine.stats import CacheStats
from llamaweb.lib.clock import Clock

logger = logging.getLogger(__name__)


class Way(enum.IntEnum):
    """How a prefix gets into a slot, the plainest first."""

    IN_PLACE = 0
    COPY = 1  # from another stream, at the next decode
    STATE = 2  # from another stream, its used cells only
    STORED = 3  # from the second tier


@dataclass(frozen=True, slots=True)
class Reuse:
    """`length` tokens come from `source`, which may be the sequence's own slot; `cuts`: what to
    take out of it first (see `find_cuts`)."""

    way: Way
    source: Slot | StoredState
    length: int
    cuts: tuple[tuple[int, int], ...] = ()


class PromptCache:
    """The slots with their contents and the second tier, under one index."""

    def __init__(
        self, backend: Backend, config: EngineConfig, costs: CacheCosts, clock: Clock
    ) -> None:
        self.table = SlotTable(backend.num_seqs, backend.max_context)
        self.host = HostCache(config.host_cache_bytes)
        self.stats = CacheStats()
        self._backend = backend
        self._config = config
        self._costs = costs
        self._clock = clock
        self._index: RadixIndex[Slot | StoredState] = RadixIndex()
        self._copy_sources: set[int] = set()
        self._copy_targets: set[int] = set()
        self._cut_slots: set[int] = set()  # the next decode turns their keys

    # --- seats

    def seat(self, sequence_request: SequenceRequest, prefix: Prefix) -> Slot:
        """A free slot for a new sequence; its content stays until `begin`."""
        found = self._match(sequence_request, prefix)
        slots = {
            holder.seq_id: length
            for holder, length in found.items()
            if isinstance(holder, Slot) and self._can_take(holder, length)
        }
        if sequence_request.context.n_cache_reuse > 0:
            target = prefix.codes.astype(np.int32)
            for slot in self.table.slots:
                kept = slots.get(slot.seq_id, 0)
                if not slot.is_busy:
                    slots[slot.seq_id] = self._with_cuts(sequence_request, target, slot, kept)[1]
        stored = (length for holder, length in found.items() if isinstance(holder, StoredState))
        return self.table.take(
            slots,
            elsewhere_len=max(stored, default=0),
            worth_len=self._config.copy_min_len,
            can_copy=self._backend.can_share,
        )

    def leave(self, slot: Slot, step: int) -> None:
        """The sequence left; what it computed can be gone on from."""
        if slot.is_doomed:
            self.empty(slot)
        else:
            self.advance(slot)
        self.table.release(slot, step)

    # --- reuse

    def plan(self, sequence: Sequence) -> Reuse:
        """The start that takes the least time by what was measured.

        Another source than the own slot must spare `copy_min_len` tokens: below that the
        measurements are noise.
        """
        own = sequence.slot
        found = self._match(sequence.request, sequence.prefix)
        kept = found.pop(own, 0)
        kept = kept if kept and self._can_take(own, kept) else 0
        cuts, kept = self._with_cuts(sequence.request, sequence.target, own, kept)
        best = Reuse(Way.IN_PLACE, own, kept, cuts)
        best_cost = self._cost(best, sequence)
        for source, length in sorted(found.items(), key=lambda item: -item[1]):
            if length < kept + self._config.copy_min_len:
                break
            if not self._can_take(source, length):
                continue
            for way in self._ways(source):
                reuse = Reuse(way, source, length)
                cost = self._cost(reuse, sequence)
                if cost < best_cost:
                    best, best_cost = reuse, cost
        return best

    def must_wait(self, sequence: Sequence, reuse: Reuse) -> bool:
        """Whether `reuse` needs state I/O on a slot with a pending copy."""
        own = sequence.slot.seq_id
        loses = self._lost_len(sequence.slot, reuse) > 0
        if loses and own in self._copy_targets:
            return True
        if reuse.way in (Way.STATE, Way.STORED):
            if own in self._copy_targets | self._copy_sources:
                return True
            return isinstance(reuse.source, Slot) and reuse.source.seq_id in self._copy_targets
        return False

    def move(self, sequence: Sequence, target: Slot) -> None:
        """Seat a sequence elsewhere with all that is computed of it; `target` is idle and nothing
        is pending. The old seat keeps a copy that nobody would miss."""
        source = sequence.slot
        self.vacate(target)
        self._backend.move(source.seq_id, target.seq_id, source.length)
        self._copy_sources.add(source.seq_id)
        self._copy_targets.add(target.seq_id)
        target.take_over(source)
        self.advance(target)
        source.is_busy = False
        source.worth = 0.0
        if source.is_doomed:
            self.empty(source)
        sequence.slot = target
        self.stats.moves += 1

    def begin(self, sequence: Sequence, reuse: Reuse) -> None:
        """Bring `reuse` into the sequence's slot; its length may come out as 0."""
        slot, request = sequence.slot, sequence.request
        if self.must_wait(sequence, reuse):  # nothing will carry the copy out: compute it all
            reuse = Reuse(Way.IN_PLACE, slot, 0)
        elif self._lost_len(slot, reuse):
            self._store(slot)
        length = self._bring(sequence, reuse)
        kept = length and self._backend.trim(slot.seq_id, length)
        if not kept:
            self._backend.trim(slot.seq_id, 0)
        slot.length = length if kept else 0
        slot.exact_len = reuse.cuts[0][0] if reuse.cuts and kept else None
        slot.is_doomed = False
        slot.belonging = self._belonging(request)
        slot.public_len = request.public_len
        self.advance(slot)
        self._count(reuse.way, slot.length, len(sequence.target))
        self._costs.fade(is_copy=reuse.way is Way.COPY, is_state=reuse.way >= Way.STATE)

    def cut(self, slot: Slot, start: int, end: int) -> None:
        """Take tokens out of a slot; see `Slot.cut`."""
        self._backend.cut(slot.seq_id, start, end)
        self._cut_slots.add(slot.seq_id)
        slot.cut(start, end)
        self.advance(slot)

    def advance(self, slot: Slot) -> None:
        """What `slot` holds changed; others may go on from it as far as it is exact."""
        if slot.belonging is None or slot.is_doomed:
            self._index.remove(slot)
            return
        self._index.put(
            slot,
            slot.belonging.key,
            slot.belonging.scope,
            of_tokens(slot.reusable),
            slot.public_len,
        )

    def decoded(self, *, excess_s: float) -> None:
        """A decode carried copies and shifts out; it took `excess_s` longer than its rows do."""
        self._cut_slots.clear()
        if self._copy_targets:
            self._costs.observe_copies(len(self._copy_targets), excess_s)
            self._copy_sources.clear()
            self._copy_targets.clear()

    @property
    def has_pending(self) -> bool:
        """Whether the next decode begins with copies or shifts."""
        return bool(self._copy_targets or self._cut_slots)

    # --- eviction and deletion

    def empty(self, slot: Slot) -> None:
        """Nothing of `slot` may stay."""
        self._backend.trim(slot.seq_id, 0)
        self._index.remove(slot)
        slot.forget()

    def evict_one(self) -> bool:
        """Make room in a shared pool: the least missed idle content goes to the second tier."""
        slot = self.table.least_missed()
        if slot is None:
            return False
        self.vacate(slot)
        self.stats.evicted += 1
        return True

    def vacate(self, slot: Slot) -> None:
        """Empty an idle slot; what it holds goes to the second tier if it is worth it."""
        if slot.seq_id not in self._copy_targets:
            self._store(slot)
        self.empty(slot)

    def purge(self, *, owner_key: str | None = None, conversation: str | None = None) -> int:
        """Forget what belongs to an owner or a conversation; all of it without either.

        What is being computed is forgotten when it ends. Returns how many tokens went.
        """

        def is_meant(belonging: Belonging | None) -> bool:
            return belonging is not None and (
                (owner_key is None or belonging.owner_key == owner_key)
                and (conversation is None or belonging.conversation == conversation)
            )

        num = 0
        for slot in self.table.slots:
            if not is_meant(slot.belonging):
                continue
            if slot.is_busy:
                slot.is_doomed = True
                self._index.remove(slot)
            else:
                num += slot.length
                self.empty(slot)
        for entry in self.host:
            if is_meant(entry.belonging):
                num += entry.length
                self._drop(entry)
        return num

    def gauges(self) -> dict[str, float | int]:
        """What both tiers hold now; bytes of the first are estimated from what was saved."""
        idle = sum(slot.length for slot in self.table.slots if not slot.is_busy)
        return {
            "cache_slot_tokens": idle,
            "cache_slot_bytes": round(idle * self._costs.token_bytes),
            "cache_host_entries": len(self.host),
            "cache_host_bytes": self.host.used_bytes,
            "cache_host_budget_bytes": self.host.budget_bytes,
        }

    # --- inside

    def _count(self, way: Way, length: int, num_wanted: int) -> None:
        self.stats.missed_tokens += num_wanted - length
        if way is Way.IN_PLACE:
            self.stats.slot_hit_tokens += length
        elif way is Way.STORED:
            self.stats.host_hit_tokens += length
        else:
            self.stats.copy_hit_tokens += length

    def _match(self, request: SequenceRequest, prefix: Prefix) -> dict[Slot | StoredState, int]:
        if not request.context.cache_prompt:
            return {}
        # At least one token is always computed: its logits are wanted.
        most = prefix.whole(len(prefix.codes) - 1)
        inside = None if prefix.inside is None else prefix.inside[:most]
        return self._index.match(
            self._key(request),
            request.cache_scope,
            Prefix(prefix.codes[:most], inside),
            request.public_len,
        )

    def _can_take(self, source: Slot | StoredState, length: int) -> bool:
        if isinstance(source, Slot):
            if source.is_doomed or source.seq_id in self._cut_slots:
                return False
            return self._backend.can_reuse(source.seq_id, length)
        return self._backend.can_share or length == source.length

    def _with_cuts(
        self, request: SequenceRequest, target: NDArray[np.int32], slot: Slot, kept: int
    ) -> tuple[tuple[tuple[int, int], ...], int]:
        """What `slot` holds of `target` when pieces are moved, if the request wants that."""
        least, belonging = request.context.n_cache_reuse, slot.belonging
        if (
            least <= 0
            or not self._backend.can_shift
            or self._backend.is_unified  # cells may be somebody else's too
            or belonging is None
            or slot.is_doomed
            or (belonging.key, belonging.scope) != (self._key(request), request.cache_scope)
            or not request.context.cache_prompt
            or slot.seq_id in self._copy_sources | self._copy_targets | self._cut_slots
            or not self._backend.can_reuse(slot.seq_id, 1)  # a window has lost what lies before it
        ):
            return (), kept
        return find_cuts(slot.reusable, target, kept, least)

    def _ways(self, source: Slot | StoredState) -> tuple[Way, ...]:
        if isinstance(source, StoredState):
            return (Way.STORED,)
        if not self._backend.can_share:
            return ()
        return (Way.COPY,) if self._backend.is_unified else (Way.COPY, Way.STATE)

    def _cost(self, reuse: Reuse, sequence: Sequence) -> tuple[float, int, Way]:
        seconds = self._costs.recompute_s(len(sequence.target) - reuse.length)
        if reuse.way is Way.COPY and not self._backend.is_unified:
            seconds += self._costs.copy_s()
        elif reuse.way is Way.STATE:
            num_bytes = round(reuse.source.length * self._costs.token_bytes)
            seconds += self._costs.save_s(num_bytes) + self._costs.restore_s(num_bytes)
        elif isinstance(reuse.source, StoredState):
            seconds += self._costs.restore_s(reuse.source.num_bytes)
        return seconds, -reuse.length, reuse.way

    def _lost_len(self, slot: Slot, reuse: Reuse) -> int:
        """Tokens of the own slot that nobody else will hold, if they are worth a place."""
        kept = reuse.length if reuse.source is slot else 0
        lost = len(slot.reusable) - (reuse.cuts[0][0] if reuse.cuts else kept)
        if lost < self._config.copy_min_len or not self.host.budget_bytes:
            return 0
        return lost

    def _bring(self, sequence: Sequence, reuse: Reuse) -> int:
        """Returns how many tokens of the slot are right now."""
        slot, source, length = sequence.slot, reuse.source, reuse.length
        if source is slot:
            for start, end in reuse.cuts:
                self.cut(slot, start, end)
            return length
        slot.tokens[:length] = source.tokens[:length]
        if isinstance(source, Slot):
            if reuse.way is Way.COPY:
                self._backend.copy(source.seq_id, slot.seq_id, length)
                if not self._backend.is_unified:
                    self._copy_sources.add(source.seq_id)
                    self._copy_targets.add(slot.seq_id)
                self.stats.copies += 1
                return length
            state = self._save(source)
            if state is None or not self._restore(slot, state):
                return 0
            self.stats.state_copies += 1
            return length
        self.host.touch(source)
        self._make_cells(source.length)
        restored = self._restore(slot, source)
        if not restored or not self._backend.can_reuse(slot.seq_id, length):
            self._drop(source)
            return 0
        self.stats.restores += 1
        if length == source.length and source.belonging.scope == sequence.request.cache_scope:
            self._drop(source)  # the slot continues it
        return length

    def _make_cells(self, num: int) -> None:
        """Free cached cells of a shared pool until `num` more fit; a restore can't wait for it."""
        if not self._backend.is_unified:
            return
        most = self._backend.max_context - num
        while sum(slot.length for slot in self.table.slots) > most and self.evict_one():
            pass

    def _save(self, slot: Slot) -> StoredState | None:
        assert slot.belonging is not None
        started_ts = self._clock.monotonic()
        state = self._backend.save(slot.seq_id)
        if state is None:
            return None
        self._costs.observe_save(
            state.nbytes, slot.length, elapsed_s=self._clock.monotonic() - started_ts
        )
        return StoredState(
            tokens=slot.reusable.copy(),
            belonging=slot.belonging,
            public_len=slot.public_len,
            state=state,
            cost_s=self._costs.recompute_s(len(slot.reusable)),
        )

    def _restore(self, slot: Slot, entry: StoredState) -> bool:
        started_ts = self._clock.monotonic()
        done = self._backend.restore(slot.seq_id, entry.state)
        self._costs.observe_restore(
            entry.state.nbytes, elapsed_s=self._clock.monotonic() - started_ts
        )
        if not done:
            logger.warning("a saved state of %d tokens couldn't be restored", entry.length)
        return done

    def _store(self, slot: Slot) -> None:
        """Keep what `slot` holds in the second tier, unless somebody holds as much."""
        tokens, belonging = slot.reusable, slot.belonging
        if belonging is None or slot.is_doomed or len(tokens) < self._config.copy_min_len:
            return
        if not self._backend.can_reuse(slot.seq_id, len(tokens)):
            return
        prefix = of_tokens(tokens)
        others = self._index.match(belonging.key, belonging.scope, prefix, slot.public_len)
        others.pop(slot, None)
        if any(length == len(tokens) for length in others.values()):
            return
        num_bytes = self._backend.state_bytes(slot.seq_id) + tokens.nbytes
        if not self.host.has_room_for(num_bytes) or self._costs.recompute_s(len(tokens)) < (
            self._costs.save_s(num_bytes) + self._costs.restore_s(num_bytes)
        ):
            return
        entry = self._save(slot)
        if entry is None:
            return
        for other, length in others.items():  # what the new entry contains
            if (
                isinstance(other, StoredState)
                and length == other.length
                and (other.belonging, other.public_len) == (belonging, slot.public_len)
            ):
                self._drop(other)
        self._index.put(entry, belonging.key, belonging.scope, prefix, slot.public_len)
        self.stats.stores += 1
        for gone in self.host.put(entry):
            self._index.remove(gone)
            self.stats.evicted += 1

    def _drop(self, entry: StoredState) -> None:
        self.host.remove(entry)
        self._index.remove(entry)

    def _key(self, request: SequenceRequest) -> CacheKey:
        return CacheKey(self._backend.fingerprint, request.adapters)

    def _belonging(self, request: SequenceRequest) -> Belonging:
        return Belonging(
            self._key(request),
            request.cache_scope,
            request.owner_key,
            request.context.conversation,
        )


def allowed_len(request: SequenceRequest, other: SequenceRequest, common: int) -> int:
    """How much of a common prefix `request` may take from `other`."""
    if request.adapters != other.adapters or not request.context.cache_prompt:
        return 0
    if request.cache_scope == other.cache_scope:
        return common
    return min(common, request.public_len, other.public_len)


def find_leader(
    sequence: Sequence, others: Iterable[Sequence], have_len: int, gain_min_len: int
) -> Sequence | None:
    """A sequence that is computing a prefix worth waiting for, never one of a lower lane.

    Who waits already waits for all of it, however little is left.
    """
    least = have_len + (1 if sequence.has_leader else gain_min_len)
    for other in others:
        if other.phase is not Phase.PREFILL or other.lane_rank > sequence.lane_rank:
            continue
        common = common_len(sequence.prefix.codes, other.prefix.codes)
        common = min(sequence.prefix.whole(common), len(sequence.target) - 1)
        length = allowed_len(sequence.request, other.request, common)
        if length >= least and other.slot.length < length and not other.slot.is_doomed:
            return other
    return None
