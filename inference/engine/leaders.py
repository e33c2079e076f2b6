"""Who computes what others are about to need: they wait for it instead of computing it, too."""

from __future__ import annotations

from collections.abc import Iterable

from inference.engine.contract import SequenceRequest
from inference.engine.radix import common_len
from inference.engine.sequence import Phase, Sequence


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
