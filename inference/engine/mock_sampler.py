"""The sampling chain in numpy: the main parameters, one random number a token."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from inference.engine.picks import Logits, Pick
from inference.engine.sampling import Chain

Floats = NDArray[np.float64]


class NumpySampler:
    """A `Sampler` that follows `Chain.order`.

    Left out: dry, top_n_sigma, typ_p, infill, adaptive_p. Both mirostats are the second one.
    """

    def __init__(self, chain: Chain, seed: int) -> None:
        self._chain = chain
        self._random = np.random.Generator(np.random.PCG64(abs(seed)))
        self._xtc_random = np.random.Generator(np.random.PCG64(abs(seed)))
        self._mu = 2 * chain.mirostat_tau
        self._recent: deque[int] = deque(maxlen=chain.history_len)
        self.replays_by_count = chain.replays_by_count

    def pick(self, logits: Logits) -> Pick:
        """See `Sampler.pick`; leaves `logits` as they were."""
        values = logits.astype(np.float64)
        for token, bias in self._chain.bias:
            values[token] += bias
        for name in ("temperature", "mirostat") if self._chain.mirostat else self._chain.order:
            values = self._apply(name, values)
        if values.max() == -math.inf:
            return Pick(int(values.argmax()), 1)
        probs = _softmax(values)
        draw = self._random.random()
        token = int(np.searchsorted(np.cumsum(probs), draw * probs.sum(), side="right"))
        token = min(token, int(np.flatnonzero(probs)[-1]))
        self._mu -= self._chain.mirostat_eta * (-math.log2(probs[token]) - self._chain.mirostat_tau)
        return Pick(token, 1, self._after(token, probs))

    def prime(self, tokens: Iterable[int]) -> None:
        """See `Sampler.prime`."""
        self._recent.extend(tokens)

    def accept(self, token_id: int) -> None:
        """See `Sampler.accept`."""
        self._recent.append(token_id)

    def skip(self, draws: int) -> None:
        """See `Sampler.skip`."""
        self._random.random(draws)

    def close(self) -> None:
        """Nothing is held."""

    def _after(self, token: int, probs: Floats) -> tuple[tuple[int, float], ...]:
        if not self._chain.num_after:
            return ()
        best = np.argsort(-probs, kind="stable")[: self._chain.num_after]
        tops = ((int(i), float(probs[i])) for i in best if probs[i] > 0)
        return ((token, float(probs[token])), *tops)

    def _apply(self, name: str, values: Floats) -> Floats:
        chain = self._chain
        if name == "penalties" and chain.has_penalties:
            return self._penalised(values)
        if name == "top_k" and 0 < chain.top_k < len(values):
            return np.where(values >= np.sort(values)[-chain.top_k], values, -np.inf)
        if name == "top_p" and chain.top_p < 1.0:
            return _top_p(values, chain.top_p)
        if name == "min_p" and chain.min_p > 0.0:
            probs = _softmax(values)
            return np.where(probs >= chain.min_p * probs.max(), values, -np.inf)
        if name == "xtc" and chain.has_xtc:
            return self._xtc(values)
        if name == "mirostat":
            surprise = -np.log2(np.maximum(_softmax(values), np.finfo(np.float64).tiny))
            keep = (surprise <= self._mu) | (values == values.max())
            return np.where(keep, values, -np.inf)
        if name == "temperature":
            if chain.temperature <= 0.0:
                return np.where(np.arange(len(values)) == values.argmax(), 0.0, -np.inf)
            return values / chain.temperature
        return values

    def _xtc(self, values: Floats) -> Floats:
        """All but the least likely of those above the threshold go."""
        if self._xtc_random.random() > self._chain.xtc_probability:
            return values
        above = np.flatnonzero(_softmax(values) >= self._chain.xtc_threshold)
        if len(above) < 2:
            return values
        out = values.copy()
        out[above] = -np.inf
        least = above[values[above].argmin()]
        out[least] = values[least]
        return out

    def _penalised(self, values: Floats) -> Floats:
        chain = self._chain
        for token, count in Counter(self._recent).items():
            value = values[token]
            values[token] = (
                value / chain.repeat_penalty if value > 0 else value * chain.repeat_penalty
            )
            values[token] -= count * chain.frequency_penalty + chain.presence_penalty
        return values


def _softmax(values: Floats) -> Floats:
    exps: Floats = np.exp(values - values.max())
    return exps / float(exps.sum())


def _top_p(values: Floats, top_p: float) -> Floats:
    order = np.argsort(-values, kind="stable")
    before = np.cumsum(_softmax(values)[order]) - _softmax(values)[order]
    out = np.full_like(values, -np.inf)
    kept = order[before < top_p]
    out[kept] = values[kept]
    return out
