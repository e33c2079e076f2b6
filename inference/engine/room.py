"""What gives way when the shared pool of cells is full.

Order: cached cells that nobody computes with, then the prompt pieces of the step, then the
sequence that asked last. The others go on as if nothing had been.
"""

from __future__ import annotations

from collections.abc import Iterable

from inference.engine.scheduler import Work
from inference.engine.sequence import Phase, Sequence
from inference.protocol.events import Failed


def shrink(work: list[Work]) -> list[Work]:
    """`work` with half of its prompt tokens, in the end without any; empty: nothing is left."""
    out = []
    for item in work:
        if item.sequence.phase is Phase.DECODE:
            out.append(item)
        elif item.num > 1:
            out.append(Work(item.sequence, item.num // 2, wants_token=False))
    return [] if len(out) == len(work) and all(map(_is_token, work)) else out


def last_asked(sequences: Iterable[Sequence]) -> Sequence:
    """Whose end frees cells for the others."""
    return max(
        (seq for seq in sequences if seq.phase is not Phase.WAITING), key=lambda seq: seq.arrival
    )


def no_room(sequence: Sequence, pool_len: int) -> Failed:
    """How it ends."""
    return Failed(
        "busy",
        f"the context memory of {pool_len} tokens that all requests share is full, and this "
        "request asked last; try again when others have ended",
        retryable=True,
        usage=sequence.usage(),
    )


def _is_token(item: Work) -> bool:
    return item.sequence.phase is Phase.DECODE
