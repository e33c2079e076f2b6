"""The seats of the context, and what each still holds of earlier work."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from inference.engine.host_cache import Belonging


class Slot:
    """One stream of the KV cache (`seq_id`).

    Its first `length` entries of `tokens` are evaluated; they belong to `belonging`, but for the
    first `public_len` of them, which are everybody's. An idle slot keeps them: that is the prompt
    cache. Behind `exact_len` tokens were moved by a shift: what was computed for them isn't what
    their prefix gives, so nobody else goes on from there. `worth`: see `HostCache`.
    """

    def __init__(self, seq_id: int, max_context: int) -> None:
        self.seq_id = seq_id
        self.tokens: NDArray[np.int32] = np.zeros(max_context, np.int32)
        self.length = 0
        self.exact_len: int | None = None  # None: all of it
        self.belonging: Belonging | None = None
        self.public_len = 0
        self.worth = 0.0
        self.used_step = -1
        self.is_busy = False
        self.is_doomed = False  # purged while busy: nothing of it may stay

    @property
    def cached(self) -> NDArray[np.int32]:
        """The evaluated tokens."""
        return self.tokens[: self.length]

    @property
    def reusable(self) -> NDArray[np.int32]:
        """The evaluated tokens that somebody may go on from."""
        return self.tokens[
            : self.length if self.exact_len is None else min(self.exact_len, self.length)
        ]

    def extend(self, tokens: NDArray[np.int32]) -> None:
        """These tokens were evaluated behind the others."""
        end = self.length + len(tokens)
        self.tokens[self.length : end] = tokens
        self.length = end

    def append(self, token: int) -> None:
        """This token was evaluated behind the others."""
        self.tokens[self.length] = token
        self.length += 1

    def cut(self, start: int, end: int) -> None:
        """Tokens `start`..`end`-1 are gone and those behind moved down."""
        rest = self.length - end
        self.tokens[start : start + rest] = self.tokens[end : self.length].copy()
        self.length = start + rest
        self.exact_len = start if self.exact_len is None else min(self.exact_len, start)

    def take_over(self, other: Slot) -> None:
        """The sequence in `other` goes on here."""
        self.tokens[: other.length] = other.tokens[: other.length]
        self.length, self.exact_len = other.length, other.exact_len
        self.belonging, self.public_len = other.belonging, other.public_len
        self.is_busy, self.is_doomed = True, other.is_doomed

    def forget(self) -> None:
        """It holds nothing any more."""
        self.length = 0
        self.exact_len = None
        self.belonging = None
        self.is_doomed = False


class SlotTable:
    """Which slots are taken. `take` and `release` come in pairs."""

    def __init__(self, num_slots: int, max_context: int) -> None:
        self.slots = tuple(Slot(seq_id, max_context) for seq_id in range(num_slots))
        self._clock = 0.0  # ages what isn't used, see `HostCache`

    @property
    def num_idle(self) -> int:
        """Seats left."""
        return sum(not slot.is_busy for slot in self.slots)

    def take(
        self, reusable: Mapping[int, int], *, elsewhere_len: int, worth_len: int, can_copy: bool
    ) -> Slot:
        """Seat a new sequence; `reusable[seq_id]`: tokens it could keep of each slot in place.

        A slot it continues (at least `worth_len` tokens and half of the content stay, and neither
        a busy slot nor, with `elsewhere_len` tokens, the second tier has much more) wins, unless
        another seat keeps busy ids denser and the content can be copied there: consecutive ids
        share a pass over the weights. Else ids stay as dense as they can, and among the seats
        that allow it the one whose content is least missed is given away.
        """
        idle = [slot for slot in self.slots if not slot.is_busy]
        best = max(idle, key=lambda slot: (reusable.get(slot.seq_id, 0), -slot.seq_id))
        kept = reusable.get(best.seq_id, 0)
        busy = (reusable.get(slot.seq_id, 0) for slot in self.slots if slot.is_busy)
        copyable = max(elsewhere_len, *busy, 0)
        is_poor = kept < worth_len or 2 * kept < best.length or kept + worth_len <= copyable
        is_apart = can_copy and self._num_gaps(best) > min(map(self._num_gaps, idle))
        if is_poor or is_apart:
            best = min(idle, key=lambda slot: self._seat_cost(slot, reusable, worth_len))
            self._clock = max(self._clock, best.worth)
        best.is_busy = True
        return best

    def release(self, slot: Slot, step: int) -> None:
        """The sequence left; what it computed stays."""
        slot.is_busy = False
        slot.used_step = step
        slot.worth = self._clock + slot.length

    def gap(self) -> tuple[Slot, Slot] | None:
        """The highest busy slot and the lowest idle one below it, if there is one."""
        busy = [slot for slot in self.slots if slot.is_busy]
        if not busy:
            return None
        first = busy[0].seq_id
        for slot in self.slots[first : busy[-1].seq_id]:
            if not slot.is_busy:
                return busy[-1], slot
        return None

    def least_missed(self) -> Slot | None:
        """The idle slot with content whose loss costs least."""
        holding = [slot for slot in self.slots if not slot.is_busy and slot.length]
        return min(holding, key=lambda slot: (slot.worth, slot.used_step), default=None)

    def _num_gaps(self, slot: Slot) -> int:
        busy = sorted({other.seq_id for other in self.slots if other.is_busy} | {slot.seq_id})
        return sum(right - left > 1 for left, right in itertools.pairwise(busy))

    def _seat_cost(
        self, slot: Slot, reusable: Mapping[int, int], worth_len: int
    ) -> tuple[int, bool, float, int, int]:
        kept = reusable.get(slot.seq_id, 0)
        is_missed = slot.length - kept >= worth_len
        worth = slot.worth if is_missed else -float(kept)
        return self._num_gaps(slot), is_missed, worth, slot.used_step, slot.seq_id
