"""Gaps between the ids of running sequences: each costs every step a pass over the weights."""

from __future__ import annotations

from collections.abc import Iterable

from inference.engine.costs import CacheCosts
from inference.engine.prompt_cache import PromptCache
from inference.engine.sequence import Phase, Sequence
from inference.engine.timings import PrefillPace

PATIENCE_STEPS = 4  # a new request may fill it for nothing


class GapCloser:
    """Moves the last sequence into a gap that cost passes for as long as a copy takes: then the
    copy is worth it, whatever comes."""

    def __init__(self, cache: PromptCache, pace: PrefillPace, costs: CacheCosts) -> None:
        self._cache = cache
        self._pace = pace
        self._costs = costs
        self._num_steps = 0  # decode-only ones in a row that took more than one pass

    def note(self, *, is_apart: bool) -> None:
        """After each step: whether it was a decode-only one of several passes."""
        self._num_steps = self._num_steps + 1 if is_apart else 0

    def close(self, sequences: Iterable[Sequence]) -> None:
        """Before a step: close the lowest gap if that is due."""
        if not self._num_steps or self._num_steps < self._patience():
            return
        found = self._cache.table.gap()
        if found is None or self._cache.has_pending:
            return
        last, gap = found
        for sequence in sequences:
            if sequence.slot is last and sequence.phase is Phase.DECODE:
                self._num_steps = 0
                self._cache.move(sequence, gap)
                return

    def _patience(self) -> float:
        pass_s = self._pace.decode_step_s / 2
        return max(PATIENCE_STEPS, self._costs.copy_s() / pass_s if pass_s else 0)
