"""Debug mode of the prompt cache: compute a reused prefix again and compare the logits."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from inference.engine.backend import Backend
from inference.engine.batch import Batch
from inference.engine.errors import BackendError
from inference.engine.picks import Logits
from inference.engine.prompt_cache import PromptCache
from inference.engine.sequence import Phase, Sequence

logger = logging.getLogger(__name__)

MAX_LOGIT_GAP = 1.0  # so much do kernels round otherwise where a prompt is cut otherwise


class CacheCheck:
    """`remember` before a token is sampled, `run` when the step's logits aren't needed any more.

    A check takes an idle slot, whose content goes to the second tier. Without one there is none.
    """

    def __init__(self, backend: Backend, cache: PromptCache) -> None:
        self._backend = backend
        self._cache = cache
        self._batch = Batch(backend.batch_len)
        self._todo: list[tuple[Sequence, Logits]] = []

    def remember(self, sequence: Sequence, output: int) -> None:
        """Keep the logits behind a prompt that was partly reused."""
        is_first = sequence.phase is Phase.DECODE and sequence.slot.length == len(sequence.target)
        if is_first and sequence.cached_tokens:
            self._todo.append((sequence, self._backend.logits(output).copy()))

    def run(self) -> None:
        """Recompute and compare what was remembered; a difference is logged and counted."""
        todo, self._todo = self._todo, []
        for sequence, logits in todo:
            idle = [slot for slot in self._cache.table.slots if not slot.is_busy]
            if not idle:
                return
            spare = min(idle, key=lambda slot: (slot.length, slot.worth))
            self._cache.vacate(spare)
            try:
                fresh = self._compute(spare.seq_id, sequence)
            except BackendError:
                logger.error("a reused prefix couldn't be computed again")
                return
            finally:
                self._cache.empty(spare)
            gap = float(np.abs(fresh - logits).max())
            stats = self._cache.stats
            stats.checks += 1
            stats.worst_check_gap = max(stats.worst_check_gap, gap)
            if gap > MAX_LOGIT_GAP:
                stats.check_failures += 1
                logger.error(
                    "a reused prefix of %d tokens gave other logits, by %.3f",
                    sequence.cached_tokens,
                    gap,
                )

    def _compute(self, seq_id: int, sequence: Sequence) -> Logits:
        self._backend.begin(seq_id, sequence.request)
        # The step's adapters are the sequence's own: only one group is in a batch.
        plan, target = sequence.adapters, sequence.target
        try:
            if plan.start:
                self._backend.use_adapters(plan.before)
                self._decode(seq_id, target, 0, plan.start)
        finally:
            if plan.start:
                self._backend.use_adapters(plan.after)
        self._decode(seq_id, target, plan.start, len(target))
        return self._backend.logits(0)

    def _decode(self, seq_id: int, target: NDArray[np.int32], start: int, end: int) -> None:
        most = self._backend.batch_len
        for first in range(start, end, most):
            piece = target[first : min(first + most, end)]
            self._batch.clear()
            self._batch.add_piece(seq_id, piece, first, first + most >= end)
            self._backend.decode(self._batch)
