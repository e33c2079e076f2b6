"""Sampling parameters made definite.

Defaults, names, order and ranges are llama-server's, so that the same request gives the same text.
Beyond them no number may be so large that the chain's 32-bit arithmetic breaks down.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TypeVar

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
KNOWN = frozenset({*DEFAULT_ORDER, "infill", "adaptive_p"})
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
}
DEFAULT_BREAKERS = ("\n", ":", '"', "*")
MAX_NUM_PROBS = 20  # rivals a token; each is some 85 bytes in every event and stream
MAX_BIAS_TOKENS = 65_536  # that the texts of `logit_bias_texts` stand for
MAX_NUMBER = 1e6  # of any parameter
MIN_REPEAT_PENALTY = 1e-6
MIN_TEMPERATURE = 1e-6  # below, logits divided by it leave the range of 32 bits
MAX_XTC_THRESHOLD = 0.5  # above, xtc does nothing
# (name, least, most); both ends are allowed.
RANGES: tuple[tuple[str, float, float], ...] = (
    ("repeat_penalty", MIN_REPEAT_PENALTY, MAX_NUMBER),
    ("dry_multiplier", 0.0, MAX_NUMBER),
    ("adaptive_decay", 0.0, 0.99),
    *(
        (name, -MAX_NUMBER, MAX_NUMBER)
        for name in (
            *("temperature", "dynatemp_range", "dynatemp_exponent", "top_p", "min_p"),
            *("top_n_sigma", "xtc_probability", "xtc_threshold", "typical_p", "dry_base"),
            *("presence_penalty", "frequency_penalty", "mirostat_tau", "mirostat_eta"),
            *("adaptive_target",),
        )
    ),
)
MAX_INFILL_TOP_K = 128  # infill compares each candidate with each
COUNTS = ("repeat_last_n", "dry_allowed_length", "dry_penalty_last_n", "min_keep")
MAX_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Chain:
    """Every parameter with its value; `order` holds canonical names, `bias` real numbers.

    `num_after`: how many of the tokens that the chain left are shown with each one, 0: none.
    """

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
    adaptive_target: float
    adaptive_decay: float
    min_keep: int
    num_after: int

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
    def has_xtc(self) -> bool:
        """Whether the XTC sampler is on; it draws random numbers of its own."""
        return (
            "xtc" in self.order
            and self.xtc_probability > 0.0
            and self.xtc_threshold <= MAX_XTC_THRESHOLD
        )

    @property
    def is_adaptive(self) -> bool:
        """Whether adaptive-p draws the token instead of the plain draw."""
        return "adaptive_p" in self.order and self.mirostat == 0

    @property
    def replays_by_count(self) -> bool:
        """See `Sampler`: mirostat and adaptive-p learn from the probabilities they saw."""
        return self.mirostat == 0 and not self.is_adaptive and not self.has_xtc

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
            and self.dynatemp_range <= 0.0
            and "temperature" in self.order
            and self.mirostat == 0
            and not self.has_penalties
            and not self.has_dry
            and not self.has_xtc
            and not self.is_adaptive
            and "infill" not in self.order
        )


def resolve_chain(params: SamplingParams, tokenizer: Tokenizer, *, max_context: int) -> Chain:
    """`params` with every default filled in.

    No sampler looks back further than `max_context` tokens: there aren't more, and llama.cpp
    allocates room for as many as it is told.

    Raises:
        InvalidError: a value no chain can be built from; `param` names it.
    """
    _refuse(params)
    _refuse_infill(params, tokenizer)
    return Chain(
        order=_order(params.samplers),
        bias=_bias(params, tokenizer),
        temperature=_temperature(params),
        dynatemp_range=_or(params.dynatemp_range, 0.0),
        dynatemp_exponent=_or(params.dynatemp_exponent, 1.0),
        top_k=min(MAX_COUNT, max(0, _or(params.top_k, 40))),
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
        adaptive_target=min(1.0, _or(params.adaptive_target, -1.0)),
        adaptive_decay=_or(params.adaptive_decay, 0.9),
        min_keep=_or(params.min_keep, 0),
        num_after=params.num_probs if params.post_sampling_probs else 0,
    )


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _clamp(value: float) -> float:
    return min(1.0, max(0.0, value))


def _temperature(params: SamplingParams) -> float:
    temperature = _or(params.temperature, 0.8)
    return 0.0 if temperature < MIN_TEMPERATURE else temperature


def _order(names: tuple[str, ...] | None) -> tuple[str, ...]:
    if names is None:
        return DEFAULT_ORDER
    order: list[str] = []
    for name in names:
        plain = name.lower().replace("-", "_")
        plain = ALIASES.get(plain, plain)
        if plain in KNOWN:
            order.append(plain)
        else:
            logger.warning("an unknown sampler name was dropped")
    return tuple(order)


def _bias(params: SamplingParams, tokenizer: Tokenizer) -> tuple[tuple[int, float], ...]:
    """Biases by id, several of one token added up; ids outside the vocabulary have no effect."""
    bias: dict[int, float] = {}
    for token, value in (*params.logit_bias, *_text_biases(params, tokenizer)):
        if 0 <= token < tokenizer.vocab_len:
            bias[token] = bias.get(token, 0.0) + (-math.inf if value is None else value)
    forbidden = tokenizer.end_tokens if params.ignore_eos else ()
    bias.update(dict.fromkeys((*tokenizer.suppressed_tokens, *forbidden), -math.inf))
    return tuple(bias.items())


def _text_biases(params: SamplingParams, tokenizer: Tokenizer) -> list[tuple[int, float | None]]:
    out: list[tuple[int, float | None]] = []
    for text, value in params.logit_bias_texts:
        tokens = tokenizer.tokenize(text, add_special=False, parse_special=False)
        out += [(token, value) for token in tokens]
        if len(out) > MAX_BIAS_TOKENS:
            raise InvalidError(
                f"the texts have more than {MAX_BIAS_TOKENS} tokens", param="logit_bias"
            )
    return out


def _refuse(params: SamplingParams) -> None:
    for name, least, most in RANGES:
        value = getattr(params, name)
        if value is not None and not least <= value <= most:
            raise InvalidError(_out_of_range(name, least, most, value), param=name)
    for name in COUNTS:
        value = getattr(params, name)
        if value is not None and not 0 <= value <= MAX_COUNT:
            raise InvalidError(_out_of_range(name, 0, MAX_COUNT, value), param=name)
    for _, value in (*params.logit_bias, *params.logit_bias_texts):
        if value is not None and not -MAX_NUMBER <= value <= MAX_NUMBER:
            message = _out_of_range("logit_bias", -MAX_NUMBER, MAX_NUMBER, value)
            raise InvalidError(message, param="logit_bias")
    if params.dry_sequence_breakers is not None and not params.dry_sequence_breakers:
        raise InvalidError("dry_sequence_breakers must not be empty", param="dry_sequence_breakers")
    if not 0 <= params.num_probs <= MAX_NUM_PROBS:
        raise InvalidError(
            f"the number of log probabilities must be between 0 and {MAX_NUM_PROBS}, "
            f"but got {params.num_probs}",
            param="logprobs",
        )


def _refuse_infill(params: SamplingParams, tokenizer: Tokenizer) -> None:
    order = _order(params.samplers)
    if "infill" not in order or params.mirostat:
        return
    top_k = _or(params.top_k, 40)
    is_small = "top_k" in order[: order.index("infill")] and 0 < top_k <= MAX_INFILL_TOP_K
    if not is_small or not tokenizer.eos_token:
        raise InvalidError(
            f"infill needs top_k before it, of 1 to {MAX_INFILL_TOP_K}, and a model with an end",
            param="samplers",
        )


def _out_of_range(name: str, least: float, most: float, value: float) -> str:
    low, high = (x if isinstance(x, int) else f"{x:g}" for x in (least, most))
    return f"Field '{name}': Value must be between {low} <= value <= {high}, but got {value}"
