"""How the start of a prompt gets into its slot in the least time, by what was measured."""

from __future__ import annotations

import enum
from collections.abc import Sequence as ListOf
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from inference.engine.backend import Backend
from inference.engine.config import EngineConfig
from inference.engine.contract import SequenceRequest
from inference.engine.costs import CacheCosts
from inference.engine.host_cache import Belonging, StoredState
from inference.engine.prefix import Prefix
from inference.engine.radix import RadixIndex
from inference.engine.sequence import Sequence
from inference.engine.shifting import find_cuts
from inference.engine.slots import Slot


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


@dataclass(slots=True)
class Pending:
    """What the next decode begins with, by slot: copies between streams (`sources`, `targets`) and
    shifts (`cuts`: their keys are turned then)."""

    sources: set[int] = field(default_factory=set)
    targets: set[int] = field(default_factory=set)
    cuts: set[int] = field(default_factory=set)

    def clear(self) -> None:
        """A decode carried it out."""
        self.sources.clear()
        self.targets.clear()
        self.cuts.clear()


class ReusePlanner:
    """Chooses; what it chose is done by `PromptCache`."""

    def __init__(
        self,
        backend: Backend,
        config: EngineConfig,
        costs: CacheCosts,
        index: RadixIndex[Slot | StoredState],
        pending: Pending,
        *,
        has_host: bool,
    ) -> None:
        self._backend = backend
        self._config = config
        self._costs = costs
        self._index = index
        self._pending = pending
        self._has_host = has_host

    def offers(
        self, request: SequenceRequest, belonging: Belonging, prefix: Prefix, slots: ListOf[Slot]
    ) -> tuple[dict[int, int], int]:
        """How much of `prefix` each slot holds, by id, and the most that the second tier has."""
        found = self._match(request, belonging, prefix)
        held = {
            holder.seq_id: length
            for holder, length in found.items()
            if isinstance(holder, Slot) and self.can_take(holder, length)
        }
        if request.context.n_cache_reuse > 0:
            target = prefix.codes.astype(np.int32)
            for slot in slots:
                kept = held.get(slot.seq_id, 0)
                if not slot.is_busy:
                    held[slot.seq_id] = self._with_cuts(request, belonging, target, slot, kept)[1]
        stored = (length for holder, length in found.items() if isinstance(holder, StoredState))
        return held, max(stored, default=0)

    def plan(self, sequence: Sequence) -> Reuse:
        """The start that takes the least time by what was measured.

        Another source than the own slot must spare `copy_min_len` tokens: below that the
        measurements are noise.
        """
        own, request = sequence.slot, sequence.request
        found = self._match(request, sequence.belonging, sequence.prefix)
        kept = found.pop(own, 0)
        kept = kept if kept and self.can_take(own, kept) else 0
        cuts, kept = self._with_cuts(request, sequence.belonging, sequence.target, own, kept)
        best = Reuse(Way.IN_PLACE, own, kept, cuts)
        best_cost = self._cost(best, sequence)
        for source, length in sorted(found.items(), key=lambda item: -item[1]):
            if length < kept + self._config.copy_min_len:
                break
            if not self.can_take(source, length):
                continue
            for way in self._ways(source):
                reuse = Reuse(way, source, length)
                cost = self._cost(reuse, sequence)
                if cost < best_cost:
                    best, best_cost = reuse, cost
        return best

    def can_take(self, source: Slot | StoredState, length: int) -> bool:
        """Whether the first `length` tokens of `source` can be gone on from elsewhere."""
        if isinstance(source, Slot):
            if source.is_doomed or source.seq_id in self._pending.cuts:
                return False
            return self._backend.can_reuse(source.seq_id, length)
        return self._backend.can_share or length == source.length

    def must_wait(self, sequence: Sequence, reuse: Reuse) -> bool:
        """Whether `reuse` needs state I/O on a slot with a pending copy."""
        own = sequence.slot.seq_id
        loses = self.lost_len(sequence.slot, reuse) > 0
        if loses and own in self._pending.targets:
            return True
        if reuse.way in (Way.STATE, Way.STORED):
            if own in self._pending.targets | self._pending.sources:
                return True
            return isinstance(reuse.source, Slot) and reuse.source.seq_id in self._pending.targets
        return False

    def lost_len(self, slot: Slot, reuse: Reuse) -> int:
        """Tokens of the own slot that nobody else will hold, if they are worth a place."""
        kept = reuse.length if reuse.source is slot else 0
        lost = len(slot.reusable) - (reuse.cuts[0][0] if reuse.cuts else kept)
        if lost < self._config.copy_min_len or not self._has_host:
            return 0
        return lost

    # --- inside

    def _match(
        self, request: SequenceRequest, belonging: Belonging, prefix: Prefix
    ) -> dict[Slot | StoredState, int]:
        if not request.context.cache_prompt:
            return {}
        # At least one token is always computed: its logits are wanted.
        most = prefix.whole(len(prefix.codes) - 1)
        inside = None if prefix.inside is None else prefix.inside[:most]
        return self._index.match(
            belonging.key,
            belonging.scope,
            Prefix(prefix.codes[:most], inside),
            request.public_len,
        )

    def _with_cuts(
        self,
        request: SequenceRequest,
        wanted: Belonging,
        target: NDArray[np.int32],
        slot: Slot,
        kept: int,
    ) -> tuple[tuple[tuple[int, int], ...], int]:
        """What `slot` holds of `target` when pieces are moved, if the request wants that."""
        least, belonging = request.context.n_cache_reuse, slot.belonging
        if (
            least <= 0
            or not self._backend.can_shift
            or self._backend.is_unified  # cells may be somebody else's too
            or belonging is None
            or slot.is_doomed
            or (belonging.key, belonging.scope) != (wanted.key, wanted.scope)
            or not (belonging.activation is wanted.activation is None)  # a piece would keep its own
            or not request.context.cache_prompt
            or slot.seq_id in self._pending.sources | self._pending.targets | self._pending.cuts
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
