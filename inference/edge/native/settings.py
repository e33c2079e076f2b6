"""`generation_settings`: how a request's tokens are picked, with every default filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from inference.protocol.params import ContextParams, Limits, SamplingParams

# What the engine takes where nothing is said, in llama-server's names and order; a test holds them
# together.
DEFAULTS: Final[Mapping[str, Any]] = {
    "temperature": 0.8,
    "dynatemp_range": 0.0,
    "dynatemp_exponent": 1.0,
    "top_k": 40,
    "top_p": 0.95,
    "min_p": 0.05,
    "top_n_sigma": -1.0,
    "xtc_probability": 0.0,
    "xtc_threshold": 0.1,
    "typical_p": 1.0,
    "repeat_last_n": 64,
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
    "dry_base": 1.75,
    "dry_allowed_length": 2,
    "dry_penalty_last_n": 64,
    "mirostat": 0,
    "mirostat_tau": 5.0,
    "mirostat_eta": 0.1,
    "adaptive_target": -1.0,
    "adaptive_decay": 0.9,
    "min_keep": 0,
}
BREAKERS: Final = ("\n", ":", '"', "*")
SAMPLERS: Final = (
    *("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"),
)
UNLIMITED: Final = -1
NO_LIMITS: Final = Limits()
PLAIN_CONTEXT: Final = ContextParams()


def number_settings(
    sampling: SamplingParams, limits: Limits = NO_LIMITS, context: ContextParams = PLAIN_CONTEXT
) -> dict[str, Any]:
    """Those that are numbers and names, as models' defaults show them too."""
    max_tokens = UNLIMITED if limits.max_tokens is None else limits.max_tokens
    given = {name: getattr(sampling, name) for name in DEFAULTS}
    return {
        **{name: DEFAULTS[name] if value is None else value for name, value in given.items()},
        "max_tokens": max_tokens,
        "n_predict": max_tokens,
        "n_keep": context.n_keep,
        "n_discard": context.n_discard,
        "ignore_eos": sampling.ignore_eos,
        "n_probs": sampling.num_probs,
        "post_sampling_probs": sampling.post_sampling_probs,
        "samplers": list(SAMPLERS if sampling.samplers is None else sampling.samplers),
        "chat_format": "Content-only",
        "reasoning_format": "none",
        "reasoning_in_content": False,
        "generation_prompt": "",
        "speculative.types": "none",
        "timings_per_token": sampling.timings_per_token,
        "backend_sampling": False,
    }


def text_settings(
    sampling: SamplingParams, limits: Limits, preserved: tuple[str, ...]
) -> dict[str, Any]:
    """Those that hold texts and lists of the caller's."""
    breakers, grammar = sampling.dry_sequence_breakers, sampling.grammar
    biases = (*sampling.logit_bias, *sampling.logit_bias_texts)
    triggers = () if grammar is None else grammar.triggers
    return {
        "dry_sequence_breakers": list(BREAKERS if breakers is None else breakers),
        "stop": list(limits.stop),
        "logit_bias": [{"bias": bias, "token": token} for token, bias in biases],
        "grammar": "" if grammar is None else grammar.text,
        "grammar_lazy": grammar is not None and grammar.lazy,
        "grammar_triggers": [
            {"type": 0, "token": t.token_id, "value": ""}
            if t.kind == "token"
            else {"type": 1, "value": t.value}
            for t in triggers
        ],
        "preserved_tokens": list(preserved),
    }
