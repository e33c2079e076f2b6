"""Moving what is in the context instead of computing it: context shift and reuse in pieces.

Tokens that were moved keep what was computed for them in their old surroundings, so an answer
behind them may differ a little from one computed afresh. Both are options, off by default.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inference.engine.radix import common_len
from inference.protocol.params import ContextParams

LEAST_ROOM = 4  # tokens that a shift always leaves behind what it keeps
MAX_SHIFTED_CONTEXTS = 16  # an answer that never ends by itself ends after so many contexts


def shift_range(
    length: int, *, prompt_len: int, has_bos: bool, params: ContextParams, max_context: int
) -> tuple[int, int]:
    """Which positions a full context of `length` tokens gives up: `n_keep` at the beginning stay
    (-1 the whole prompt; one more where the prompt begins with the beginning-of-text token), then
    `n_discard` go, or half of the rest."""
    keep = prompt_len if params.n_keep < 0 else params.n_keep + has_bos
    keep = min(keep, max_context - LEAST_ROOM, length - 1)
    rest = length - keep
    num = min(params.n_discard or rest // 2, rest - 1)
    return keep, keep + max(1, num)


def find_cuts(
    cached: NDArray[np.int32], target: NDArray[np.int32], start: int, least: int
) -> tuple[tuple[tuple[int, int], ...], int]:
    """Cuts that turn `cached` into a longer prefix of `target` than its first `start` tokens.

    Pieces of at least `least` tokens that stand further on in `cached` are moved down, in order.
    Returns the cuts, each in the positions that the earlier ones left, and the prefix's length;
    at least one token of `target` is left over.
    """
    cuts: list[tuple[int, int]] = []
    target = target[:-1]
    done, at = start, start  # `at`: in `cached` as it was
    while done < len(target):
        places = np.flatnonzero(cached[at:] == target[done]) + at
        for place in places:
            num = common_len(cached[place:], target[done:])
            if num >= least:
                break
        else:
            break
        if place > at:
            cuts.append((done, done + int(place) - at))
        done, at = done + num, int(place) + num
    return tuple(cuts), done
