"""Sampling parameters made definite, the greedy sampler, and log probabilities.

Defaults, names and order are llama-server's, so that the same request gives the same text.
"""

from __future__ import annotations

import functools
import logging
import math
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from inference.protocol.events import TokenLogprobs, TokenProb
from inference.protocol.params import SamplingParams
from inference.text.tokenizer import Tokenizer
from llamaweb.lib.errors import InvalidError

logger = logging.getLogger(__name__)
T = TypeVar("T")

DEFAULT_ORDER = (
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typ_p",
    "top_p",
    "min_p",
    "xtc",
    "temperature",
)
ALIASES = {
    "topk": "top_k",
    "topp": "top_p",
    "nucleus": "top_p",
    "minp": "min_p",
    "temp": "temperature",
    "typ": "typ_p",
    "typical": "typ_p",
    "typical_p": "typ_p",
    "typp": "typ_p",
    "top_n_sigma": "top_n_sigma",
}
DEFAULT_BREAKERS = ("\n", ":", '"', "*")
MAX_NUM_PROBS = 20  # rivals a token; each is some 85 bytes in every event and stream
LOWEST_LOGPROB = float(np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class Chain:
    """Every parameter with its value; `order` holds canonical names, `bias` real numbers."""

    order: tuple[str, ...]
    bias: tuple[tuple[int, float], ...]
    temperature: float
    dynatemp_range: float
    dynatemp_exponent: float
    top_k: int
    top_p: float
    min_p: float
    top_n_sigma: float
    xtc_probability: float
    xtc_threshold: float
    typical_p: float
    repeat_last_n: int
    repeat_penalty: float
    presence_penalty: float
    frequency_penalty: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: tuple[str, ...]
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    min_keep: int

    @property
    def has_penalties(self) -> bool:
        """Whether earlier tokens change the logits by repetition penalties."""
        neutral = (
            self.repeat_penalty == 1.0
            and self.presence_penalty == 0.0
            and self.frequency_penalty == 0.0
        )
        return "penalties" in self.order and self.repeat_last_n != 0 and not neutral

    @property
    def has_dry(self) -> bool:
        """Whether the DRY sampler is on."""
        return "dry" in self.order and self.dry_multiplier != 0.0 and self.dry_penalty_last_n != 0

    @property
    def history_len(self) -> int:
        """How many earlier tokens the chain looks at."""
        if self.mirostat:
            return 0
        penalties = self.repeat_last_n if self.has_penalties else 0
        return max(penalties, self.dry_penalty_last_n if self.has_dry else 0)

    @property
    def is_greedy(self) -> bool:
        """Whether the choice is the largest biased logit and nothing else matters."""
        return (
            self.temperature <= 0.0
            and "temperature" in self.order
            and self.mirostat == 0
            and not self.has_penalties
            and not self.has_dry
            and not ("xtc" in self.order and self.xtc_probability > 0.0)
        )


def resolve_chain(params: SamplingParams, tokenizer: Tokenizer, *, max_context: int) -> Chain:
    """`params` with every default filled in.

    No sampler looks back further than `max_context` tokens: there aren't more, and llama.cpp
    allocates room for as many as it is told.

    Raises:
        InvalidError: a value no chain can be built from; `param` names it.
    """
    _refuse(params)
    return Chain(
        order=_order(params.samplers),
        bias=_bias(params, tokenizer),
        temperature=max(0.0, _or(params.temperature, 0.8)),
        dynatemp_range=_or(params.dynatemp_range, 0.0),
        dynatemp_exponent=_or(params.dynatemp_exponent, 1.0),
        top_k=max(0, _or(params.top_k, 40)),
        top_p=_clamp(_or(params.top_p, 0.95)),
        min_p=_clamp(_or(params.min_p, 0.05)),
        top_n_sigma=_or(params.top_n_sigma, -1.0),
        xtc_probability=_clamp(_or(params.xtc_probability, 0.0)),
        xtc_threshold=_clamp(_or(params.xtc_threshold, 0.1)),
        typical_p=_clamp(_or(params.typical_p, 1.0)),
        repeat_last_n=min(max_context, _or(params.repeat_last_n, 64)),
        repeat_penalty=_or(params.repeat_penalty, 1.0),
        presence_penalty=_or(params.presence_penalty, 0.0),
        frequency_penalty=_or(params.frequency_penalty, 0.0),
        dry_multiplier=_or(params.dry_multiplier, 0.0),
        dry_base=1.75 if (params.dry_base or 0.0) < 1.0 else _or(params.dry_base, 1.75),
        dry_allowed_length=_or(params.dry_allowed_length, 2),
        dry_penalty_last_n=min(max_context, _or(params.dry_penalty_last_n, 64)),
        dry_sequence_breakers=_or(params.dry_sequence_breakers, DEFAULT_BREAKERS),
        mirostat=min(2, max(0, _or(params.mirostat, 0))),
        mirostat_tau=_or(params.mirostat_tau, 5.0),
        mirostat_eta=_or(params.mirostat_eta, 0.1),
        min_keep=_or(params.min_keep, 0),
    )


class GreedySampler:
    """The largest logit after fixed biases; no random numbers, no memory."""

    draws_per_token = 0

    def __init__(self, bias: tuple[tuple[int, float], ...] = ()) -> None:
        self._ids = np.array([token for token, _ in bias], np.int64)
        self._values = np.array([value for _, value in bias], np.float32)

    def pick(self, logits: NDArray[np.float32]) -> int:
        """See `Sampler.pick`."""
        if self._ids.size:
            logits[self._ids] += self._values
        return int(logits.argmax())

    def accept(self, token_id: int) -> None:
        """Nothing depends on earlier tokens."""

    def skip(self, draws: int) -> None:
        """Nothing is drawn."""

    def close(self) -> None:
        """Nothing is held."""


def logprobs_of(
    logits: NDArray[np.float32], num_probs: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
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

    def prob(candidate: int) -> TokenProb:
        value = max(float(logprobs[candidate]), LOWEST_LOGPROB)
        return TokenProb(candidate, tuple(tokenizer.piece(candidate, special=True)), value)

    return TokenLogprobs(prob(token_id), tuple(prob(int(candidate)) for candidate in best))


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _clamp(value: float) -> float:
    return min(1.0, max(0.0, value))


def _order(names: tuple[str, ...] | None) -> tuple[str, ...]:
    if names is None:
        return DEFAULT_ORDER
    order: list[str] = []
    for name in names:
        plain = name.lower().replace("-", "_")
        plain = ALIASES.get(plain, plain)
        if plain in DEFAULT_ORDER:
            order.append(plain)
        else:
            logger.warning("an unknown sampler name was dropped")
    return tuple(order)


def _bias(params: SamplingParams, tokenizer: Tokenizer) -> tuple[tuple[int, float], ...]:
    """Biases by id, the later one of two counts; ids outside the vocabulary have no effect."""
    bias = {
        token: -math.inf if value is None else value
        for token, value in params.logit_bias
        if 0 <= token < tokenizer.vocab_len
    }
    if params.ignore_eos:
        bias.update(dict.fromkeys(_end_tokens(cast(Any, tokenizer)), -math.inf))
    return tuple(bias.items())


@functools.lru_cache(maxsize=4)  # a scan of the whole vocabulary
def _end_tokens(tokenizer: Tokenizer) -> list[int]:
    return [token for token in range(tokenizer.vocab_len) if tokenizer.is_end(token)]


def _refuse(params: SamplingParams) -> None:
    for name in ("repeat_last_n", "dry_allowed_length", "dry_penalty_last_n", "min_keep"):
        value = getattr(params, name)
        if value is not None and value < 0:
            raise InvalidError(f"{name} must be 0 or more, but got {value}", param=name)
    if params.repeat_penalty is not None and not 0.0 < params.repeat_penalty < math.inf:
        raise InvalidError("repeat_penalty must be a finite number above 0", param="repeat_penalty")
    for name in ("temperature", "presence_penalty", "frequency_penalty", "top_p", "min_p"):
        value = getattr(params, name)
        if value is not None and not math.isfinite(value):
            raise InvalidError(f"{name} must be a finite number", param=name)
    if params.dry_sequence_breakers is not None and not params.dry_sequence_breakers:
        raise InvalidError("dry_sequence_breakers must not be empty", param="dry_sequence_breakers")
    if not 0 <= params.num_probs <= MAX_NUM_PROBS:
        raise InvalidError(
            f"the number of log probabilities must be between 0 and {MAX_NUM_PROBS}, "
            f"but got {params.num_probs}",
            param="logprobs",
        )
    if params.post_sampling_probs:
        raise InvalidError(
            "probabilities after sampling aren't offered, only those of the raw logits",
            param="post_sampling_probs",
        )
