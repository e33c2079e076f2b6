"""Log probabilities for the reader: of the raw logits, or of what the sampler chain left."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inference.engine.picks import Logits
from inference.protocol.events import TokenLogprobs, TokenProb
from inference.text.tokenizer import Tokenizer

LOWEST_LOGPROB = float(np.finfo(np.float32).min)


def raw_logprobs(logits: Logits, num_probs: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Log probabilities of the whole vocabulary from raw logits, and the best ids, best first."""
    values = logits.astype(np.float64)
    values -= values.max()
    values -= math.log(np.exp(values).sum())
    count = min(num_probs, len(values))
    best = np.argpartition(-values, count - 1)[:count]
    return values, best[np.lexsort((best, -values[best]))]


def token_logprobs(
    token_id: int,
    logprobs: NDArray[np.float64],
    best: NDArray[np.int64],
    tokenizer: Tokenizer,
) -> TokenLogprobs:
    """The protocol's record of one choice."""
    tops = tuple(_prob(int(token), float(logprobs[token]), tokenizer) for token in best)
    return TokenLogprobs(_prob(token_id, float(logprobs[token_id]), tokenizer), tops)


def after_logprobs(after: Sequence[tuple[int, float]], tokenizer: Tokenizer) -> TokenLogprobs:
    """The protocol's record of `Pick.after`."""
    chosen, *tops = (
        _prob(token, math.log(prob) if prob > 0 else LOWEST_LOGPROB, tokenizer)
        for token, prob in after
    )
    return TokenLogprobs(chosen, tuple(tops))


def _prob(token_id: int, logprob: float, tokenizer: Tokenizer) -> TokenProb:
    piece = tokenizer.piece(token_id, special=True)
    return TokenProb(token_id, tuple(piece), max(logprob, LOWEST_LOGPROB))
