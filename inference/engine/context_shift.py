"""A full context that goes on: sequences give up a part of what they hold for the next token."""

from __future__ import annotations

from collections.abc import Iterable

from inference.engine.backend import Backend
from inference.engine.prompt_cache import PromptCache
from inference.engine.sequence import Sequence
from inference.engine.shifting import shift_range


class ContextShift:
    """`is_on` as asked for, where this memory can do it. `num_shifts` so far."""

    def __init__(self, backend: Backend, cache: PromptCache, *, wanted: bool) -> None:
        self.is_on = wanted and backend.can_shift and not backend.is_unified
        self.num_shifts = 0
        self._backend = backend
        self._cache = cache

    def make_room(self, decoding: Iterable[Sequence]) -> None:
        """Before a step: whoever has no room for its next token gets some."""
        max_context = self._backend.max_context
        for sequence in decoding:
            slot = sequence.slot
            if slot.length + 1 < max_context:
                continue
            start, end = shift_range(
                slot.length,
                prompt_len=sequence.prompt_len,
                has_bos=self._begins_with_bos(sequence),
                params=sequence.request.context,
                max_context=max_context,
            )
            self._cache.cut(slot, start, end)
            sequence.was_shifted = True
            self.num_shifts += 1

    def _begins_with_bos(self, sequence: Sequence) -> bool:
        tokenizer = self._backend.tokenizer
        bos = tokenizer.bos_token.encode()
        return bool(bos) and tokenizer.piece(sequence.request.tokens[0], special=True) == bos
