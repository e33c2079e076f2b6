"""The seats of the context, and what each still holds of earlier work."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Slot:
    """One stream of the KV cache (`seq_id`).

    Its first `length` entries of `tokens` are evaluated; they belong to `cache_scope`, but for the
    first `public_len` of them. An idle slot keeps them: that is the prompt cache.
    """

    def __init__(self, seq_id: int, max_context: int) -> None:
        self.seq_id = seq_id
        self.tokens: NDArray[np.int32] = np.zeros(max_context, np.int32)
        self.length = 0
        self.cache_scope = ""
        self.public_len = 0
        self.used_step = -1
        self.is_busy = False

    @property
    def cached(self) -> NDArray[np.int32]:
        """The evaluated tokens."""
        return self.tokens[: self.length]

    def extend(self, tokens: NDArray[np.int32]) -> None:
        """These tokens were evaluated behind the others."""
        end = self.length + len(tokens)
        self.tokens[self.length : end] = tokens
        self.length = end

    def append(self, token: int) -> None:
        """This token was evaluated behind the others."""
        self.tokens[self.length] = token
        self.length += 1


class SlotTable:
    """Which slots are taken. `take` and `release` come in pairs."""

    def __init__(self, num_slots: int, max_context: int) -> None:
        self.slots = tuple(Slot(seq_id, max_context) for seq_id in range(num_slots))

    @property
    def num_idle(self) -> int:
        """Seats left."""
        return sum(not slot.is_busy for slot in self.slots)

    def take(self, reusable: Sequence[int], *, worth_len: int) -> Slot:
        """Seat a new sequence; `reusable[seq_id]`: tokens it could keep of each slot in place.

        A slot it continues (at least `worth_len` tokens and half of the content stay, and a copy
        of a busy one wouldn't spare much more) wins. Else busy ids stay as dense as they can,
        because consecutive ids share a pass over the weights, and among the seats that allow it
        the one whose content is least missed is given away.
        """
        idle = [slot for slot in self.slots if not slot.is_busy]
        best = max(idle, key=lambda slot: (reusable[slot.seq_id], -slot.seq_id))
        kept = reusable[best.seq_id]
        copyable = max((reusable[slot.seq_id] for slot in self.slots if slot.is_busy), default=0)
        if kept < worth_len or 2 * kept < best.length or kept + worth_len <= copyable:
            best = min(idle, key=lambda slot: self._seat_cost(slot, reusable, worth_len))
        best.is_busy = True
        return best

    def release(self, slot: Slot, step: int) -> None:
        """The sequence left; what it computed stays."""
        slot.is_busy = False
        slot.used_step = step

    def _seat_cost(
        self, slot: Slot, reusable: Sequence[int], worth_len: int
    ) -> tuple[int, bool, int, int, int]:
        busy = sorted({other.seq_id for other in self.slots if other.is_busy} | {slot.seq_id})
        num_gaps = sum(right - left > 1 for left, right in itertools.pairwise(busy))
        kept = reusable[slot.seq_id]
        is_missed = slot.length - kept >= worth_len
        return num_gaps, is_missed, 0 if is_missed else -kept, slot.used_step, slot.seq_id
