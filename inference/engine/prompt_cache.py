"""What a prompt may reuse of the work already done, and where that is kept.

Two tiers: the slots of the context, and states of evicted sequences in ordinary memory. The rule
of scopes: text is shared inside its `cache_scope`; across scopes only the server's own text is, so
nobody can learn from a count or from timing what somebody else asked.

A copy between streams is carried out by the next decode. Until then no state is read from its
target or written to either side: the one would read stale cells, the other be overwritten.
"""

from __future__ import annotations

import logging

from inference.engine.backend import Backend
from inference.engine.config import EngineConfig
from inference.engine.contract import SequenceRequest
from inference.engine.costs import CacheCosts
from inference.engine.host_cache import Belonging, HostCache, StoredState
from inference.engine.prefix import Prefix
from inference.engine.radix import RadixIndex
from inference.engine.reuse import Pending, Reuse, ReusePlanner, Way
from inference.engine.sequence import Sequence
from inference.engine.slots import Slot, SlotTable
from inference.engine.stats import CacheStats
from llamaweb.lib.clock import Clock

logger = logging.getLogger(__name__)


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
        self._pending = Pending()
        self._planner = ReusePlanner(
            backend, config, costs, self._index, self._pending, has_host=self.host.budget_bytes > 0
        )

    # --- seats

    def seat(self, request: SequenceRequest, belonging: Belonging, prefix: Prefix) -> Slot:
        """A free slot for a new sequence; its content stays until `begin`."""
        slots, elsewhere_len = self._planner.offers(request, belonging, prefix, self.table.slots)
        return self.table.take(
            slots,
            elsewhere_len=elsewhere_len,
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
        """See `ReusePlanner.plan`."""
        return self._planner.plan(sequence)

    def must_wait(self, sequence: Sequence, reuse: Reuse) -> bool:
        """See `ReusePlanner.must_wait`."""
        return self._planner.must_wait(sequence, reuse)

    def move(self, sequence: Sequence, target: Slot) -> None:
        """Seat a sequence elsewhere with all that is computed of it; `target` is idle and nothing
        is pending. The old seat keeps a copy that nobody would miss."""
        source = sequence.slot
        self.vacate(target)
        self._backend.move(source.seq_id, target.seq_id, source.length)
        self._pending.sources.add(source.seq_id)
        self._pending.targets.add(target.seq_id)
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
        elif lost := self._planner.lost_len(slot, reuse):
            self._store(slot, lost)
        length = self._bring(sequence, reuse)
        kept = length and self._backend.trim(slot.seq_id, length)
        if not kept:
            self._backend.trim(slot.seq_id, 0)
        slot.length = length if kept else 0
        slot.exact_len = reuse.cuts[0][0] if reuse.cuts and kept else None
        slot.is_doomed = False
        slot.belonging = sequence.belonging
        slot.public_len = request.public_len
        self.advance(slot)
        self._count(reuse.way, slot.length, len(sequence.target))
        self._costs.fade(is_copy=reuse.way is Way.COPY, is_state=reuse.way >= Way.STATE)

    def cut(self, slot: Slot, start: int, end: int) -> None:
        """Take tokens out of a slot; see `Slot.cut`."""
        self._backend.cut(slot.seq_id, start, end)
        self._pending.cuts.add(slot.seq_id)
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
            slot.belonging.prefix_of(slot.reusable),
            slot.public_len,
        )

    def decoded(self, *, excess_s: float) -> None:
        """A decode carried copies and shifts out; it took `excess_s` longer than its rows do."""
        if self._pending.targets:
            self._costs.observe_copies(len(self._pending.targets), excess_s)
        self._pending.clear()

    @property
    def has_pending(self) -> bool:
        """Whether the next decode begins with copies or shifts."""
        return bool(self._pending.targets or self._pending.cuts)

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
        if slot.seq_id not in self._pending.targets:
            self._store(slot, len(slot.reusable))
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
                    self._pending.sources.add(source.seq_id)
                    self._pending.targets.add(slot.seq_id)
                self.stats.copies += 1
                return length
            state = self._save(source)
            if state is None or not self._restore(slot, state):
                return 0
            self.stats.state_copies += 1
            return length
        self.host.touch(source)
        self._costs.observe_return()
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
        most = self._backend.pool_len - num
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

    def _store(self, slot: Slot, lost: int) -> None:
        """Put what `slot` holds into the second tier, if what goes is worth it: its last `lost`
        tokens, but for what others hold of them."""
        tokens, belonging = slot.reusable, slot.belonging
        if belonging is None or slot.is_doomed or len(tokens) < self._config.copy_min_len:
            return
        if not self._backend.can_reuse(slot.seq_id, len(tokens)):
            return
        prefix = belonging.prefix_of(tokens)
        others = self._index.match(belonging.key, belonging.scope, prefix, slot.public_len)
        others.pop(slot, None)
        held = (num for other, num in others.items() if self._planner.can_take(other, num))
        lost = min(lost, len(tokens) - max(held, default=0))
        if lost < self._config.copy_min_len:
            return
        num_bytes = self._backend.state_bytes(slot.seq_id) + tokens.nbytes
        if not self.host.has_room_for(num_bytes):
            return
        if not self._costs.is_worth_saving(num_bytes, lost):
            self._costs.fade_save()
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
        self._costs.observe_stored()
        for gone in self.host.put(entry):
            self._index.remove(gone)
            self.stats.evicted += 1

    def _drop(self, entry: StoredState) -> None:
        self.host.remove(entry)
        self._index.remove(entry)
