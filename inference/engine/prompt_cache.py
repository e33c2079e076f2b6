"""What a prompt may reuse of the work already in the context.

The rule of scopes: text is shared inside its `cache_scope`; across scopes only the server's own
text is, so nobody can learn from a count or from timing what somebody else asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inference.engine.contract import SequenceRequest
from inference.engine.sequence import Phase, Sequence
from inference.engine.slots import Slot


@dataclass(frozen=True, slots=True)
class Reuse:
    """`length` tokens come from slot `donor`, which may be the sequence's own."""

    donor: Slot
    length: int


def common_len(left: NDArray[np.int32], right: NDArray[np.int32]) -> int:
    """Length of the longest common prefix."""
    num = min(len(left), len(right))
    differs = left[:num] != right[:num]
    first = int(differs.argmax()) if num else 0
    return first if num and differs[first] else num


def allowed_len(request: SequenceRequest, cache_scope: str, public_len: int, common: int) -> int:
    """How much of a common prefix `request` may take from text of that scope."""
    if request.cache_scope == cache_scope:
        return common
    return min(common, request.public_len, public_len)


def reusable_len(
    request: SequenceRequest,
    target: NDArray[np.int32],
    slot: Slot,
    can_reuse: Callable[[int, int], bool],
) -> int:
    """Tokens of `target` that `slot` holds and `request` may take; at least one is left over."""
    common = min(common_len(target, slot.cached), len(target) - 1)
    length = allowed_len(request, slot.cache_scope, slot.public_len, common)
    return length if length > 0 and can_reuse(slot.seq_id, length) else 0


def best_reuse(
    sequence: Sequence,
    slots: Iterable[Slot],
    can_reuse: Callable[[int, int], bool],
    copy_min_len: int,
) -> Reuse:
    """The cheapest start: in place, unless a copy spares `copy_min_len` tokens more."""
    own = sequence.slot
    best = Reuse(own, reusable_len(sequence.request, sequence.target, own, can_reuse))
    least = best.length + copy_min_len
    for slot in slots:
        if slot is own:
            continue
        length = reusable_len(sequence.request, sequence.target, slot, can_reuse)
        if length >= least:
            best, least = Reuse(slot, length), length + 1
    return best


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
        common = min(common_len(sequence.target, other.target), len(sequence.target) - 1)
        length = allowed_len(
            sequence.request, other.request.cache_scope, other.request.public_len, common
        )
        if length >= least and other.slot.length < length:
            return other
    return None
