"""How to pick tokens and when to end. `None` always means "the engine's default"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The sampler chain of one sequence, in llama-server's field names and defaults.

    Probabilities are in 0..1; `temperature <= 0` is greedy. `logit_bias` holds (token id, bias)
    pairs, a bias of `-inf` is written as `None`. `samplers` names the chain's order; `None` is the
    default order. `num_probs` asks for that many candidates with each token.
    """

    temperature: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    top_n_sigma: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    typical_p: float | None = None
    repeat_last_n: int | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: tuple[str, ...] | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    min_keep: int | None = None
    samplers: tuple[str, ...] | None = None
    logit_bias: tuple[tuple[int, float | None], ...] = ()
    ignore_eos: bool = False
    num_probs: int = 0
    post_sampling_probs: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """When a generation ends by itself.

    `max_tokens` None: to the end of the context; 0: the prompt is evaluated, nothing is generated.
    `stop`: generation ends before any of these strings, which are never part of the output.
    """

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
