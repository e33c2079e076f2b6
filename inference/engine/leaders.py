"""Who computes what others are about to need: they wait for it instead of computing it, too."""

from __future__ import annotations

from collections.abc import Iterable

from inference.engine.radix import common_len
from inference.engine.sequence import Phase, Sequence


def allowed_len(sequence: Sequence, other: Sequence, common: int) -> int:
    """How much of a common prefix `sequence` may take from `other`."""
    mine, its = sequence.belonging, other.belonging
    if mine.key != its.key or not sequence.request.context.cache_prompt:
        return 0
    if mine.scope == its.scope:
        return common
    return min(common, sequence.request.public_len, other.request.public_len)


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
        length = allowed_len(sequence, other, common)
        if length >= least and other.slot.length < length and not other.slot.is_doomed:
            return other
    return None
