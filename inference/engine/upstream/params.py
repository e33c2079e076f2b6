"""Sampling and limits as fields of a request to another server.

What its dialect has no field for is refused with the field's name, unless it changes nothing: what
is off already, and what llama-server does by itself, which its clients like to repeat.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from inference.protocol.params import ContextParams, Grammar, Limits, SamplingParams
from llamaweb.lib.errors import InvalidError

Fields = dict[str, Any]

OPENAI_SAME = ("top_p", "presence_penalty", "frequency_penalty")
# Ours and llama-server's by the same name; with the values that need not be said.
LLAMA_SERVER_SAME: Mapping[str, tuple[Any, ...]] = {
    "dynatemp_range": (0.0,),
    "top_k": (0, 40),
    "min_p": (0.0, 0.05),
    "top_n_sigma": (-1.0,),
    "xtc_probability": (0.0,),
    "typical_p": (1.0,),
    "repeat_last_n": (0, 64),
    "repeat_penalty": (1.0,),
    "dry_multiplier": (0.0,),
    "mirostat": (0,),
    "adaptive_target": (-1.0,),
    "min_keep": (0, 1),
    "samplers": (),
}
# These do nothing unless one of the above is on.
LLAMA_SERVER_DETAILS = (
    *("dynatemp_exponent", "xtc_threshold", "mirostat_tau", "mirostat_eta", "adaptive_decay"),
    *("dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers"),
)
TRIGGER_NUMBERS = {"token": 0, "word": 1, "pattern": 2, "pattern_full": 3}
LARK_MARK = "%llguidance"
NEVER = -100.0  # OpenAI's bias for "not at all"


def openai_fields(sampling: SamplingParams, limits: Limits, context: ContextParams) -> Fields:
    """The fields every such server has.

    Raises:
        InvalidError: naming the field that it doesn't have.
    """
    for name, harmless in LLAMA_SERVER_SAME.items():
        if (value := getattr(sampling, name)) is not None and value not in harmless:
            raise _unknown(name)
    if limits.max_tokens == 0:
        raise InvalidError(
            "0 is not possible: the server behind this model always answers", param="max_tokens"
        )
    form = sampling.grammar if sampling.grammar is not None and sampling.grammar.text else None
    if form is not None and (form.kind != "json_schema" or form.lazy):
        raise _unknown(form.param)
    given = {
        "ignore_eos": sampling.ignore_eos,
        "post_sampling_probs": sampling.post_sampling_probs,
        "logit_bias": bool(sampling.logit_bias_texts),
        "n_indent": bool(limits.min_indent),
        "t_max_predict_ms": bool(limits.max_predict_ms),
        "cache_prompt": not context.cache_prompt,
        "n_cache_reuse": bool(context.n_cache_reuse),
        "n_keep": bool(context.n_keep),
        "n_discard": bool(context.n_discard),
    }
    for name, is_given in given.items():
        if is_given:
            raise _unknown(name, " for texts" if name == "logit_bias" else "")
    fields = _common(sampling, limits)
    if form is not None:
        answer = {"name": "answer", "strict": True, "schema": json.loads(form.text)}
        fields["response_format"] = {"type": "json_schema", "json_schema": answer}
    if sampling.logit_bias:
        fields["logit_bias"] = {
            str(token): NEVER if bias is None else bias for token, bias in sampling.logit_bias
        }
    return fields


def llama_server_fields(
    sampling: SamplingParams,
    limits: Limits,
    context: ContextParams,
    preserved_tokens: tuple[str, ...],
) -> Fields:
    """The fields of llama-server, and of a server like this one; everything can be said."""
    fields = _common(sampling, limits)
    for name in (*LLAMA_SERVER_SAME, *LLAMA_SERVER_DETAILS):
        if (value := getattr(sampling, name)) is not None:
            fields[name] = list(value) if isinstance(value, tuple) else value
    biases = (*sampling.logit_bias, *sampling.logit_bias_texts)
    if biases:
        fields["logit_bias"] = [[what, False if bias is None else bias] for what, bias in biases]
    told: Fields = {
        "ignore_eos": sampling.ignore_eos,
        "post_sampling_probs": sampling.post_sampling_probs,
        "n_indent": limits.min_indent,
        "t_max_predict_ms": limits.max_predict_ms,
        "n_cache_reuse": context.n_cache_reuse,
        "n_keep": context.n_keep,
        "n_discard": context.n_discard,
        "preserved_tokens": list(preserved_tokens),
    }
    fields |= {name: value for name, value in told.items() if value}
    if not context.cache_prompt:
        fields["cache_prompt"] = False
    if sampling.grammar is not None and sampling.grammar.text:
        fields |= _grammar_fields(sampling.grammar)
    return fields


def _common(sampling: SamplingParams, limits: Limits) -> Fields:
    fields: Fields = {}
    if sampling.temperature is not None:
        fields["temperature"] = max(0.0, sampling.temperature)
    for name in OPENAI_SAME:
        if (value := getattr(sampling, name)) is not None:
            fields[name] = value
    if limits.max_tokens is not None:
        fields["max_tokens"] = limits.max_tokens
    if limits.stop:
        fields["stop"] = list(limits.stop)
    return fields


def _grammar_fields(grammar: Grammar) -> Fields:
    if grammar.kind == "json_schema":
        return {"json_schema": json.loads(grammar.text)}
    text = grammar.text
    if grammar.kind == "regex":  # llama-server reads one in Lark, or says that it can't
        text = f"{LARK_MARK} {{}}\nstart: /{_unslashed(text)}/"
    fields: Fields = {"grammar": text}
    if grammar.lazy:
        fields["grammar_lazy"] = True
        fields["grammar_triggers"] = [
            {"type": TRIGGER_NUMBERS[t.kind], "value": t.value}
            | ({"token": t.token_id} if t.kind == "token" else {})
            for t in grammar.triggers
        ]
    return fields


def _unslashed(pattern: str) -> str:
    """A regular expression with no slash of its own in it, nor a line's end."""
    return pattern.replace("/", "\\x2f").replace("\n", "\\n")


def _unknown(name: str, what: str = "") -> InvalidError:
    return InvalidError(f"the server behind this model doesn't know '{name}'{what}", param=name)
