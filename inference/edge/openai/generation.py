"""Fields that every completion route has in common, to the protocol's params."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inference.edge.asking import Asked, SubmitContext
from inference.edge.openai.adapters import adapters_of
from inference.edge.openai.biases import biases_of
from inference.edge.openai.grammars import grammar_of
from inference.edge.openai.schemas import MAX_SAMPLERS, GenerationIn
from inference.edge.prompt_bounds import refuse_too_much
from inference.edge.stops import stops_of
from inference.edge.text_prompts import MAX_CHOICES
from inference.protocol.params import ContextParams, Limits, SamplingParams
from inference.protocol.requests import AnswerParams, Prompt
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError
from llamaweb.lib.ids import new_seed

DEFAULT_ANSWER = AnswerParams()
MAX_SEED = 2**32 - 1  # llama.cpp's mark for "draw one"
_SAME_NAME = (
    "temperature",
    "dynatemp_range",
    "dynatemp_exponent",
    "top_k",
    "top_p",
    "min_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "typical_p",
    "repeat_last_n",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "adaptive_target",
    "adaptive_decay",
    "min_keep",
    "ignore_eos",
    "post_sampling_probs",
    "timings_per_token",
)
CHAT_ONLY = (
    *("tools", "tool_choice", "reasoning_budget_tokens", "thinking_budget_tokens"),
    "reasoning_control",
)
# llama-server's letters for samplers in one text.
SAMPLER_LETTERS = {
    "e": "penalties",
    "d": "dry",
    "s": "top_n_sigma",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "m": "min_p",
    "x": "xtc",
    "t": "temperature",
    "i": "infill",
    "a": "adaptive_p",
}


def refuse_unsupported(body: GenerationIn) -> None:
    """What would change the answer and can't be done is refused, never dropped in silence.

    Raises:
        InvalidError: naming the field.
    """
    if body.functions:
        raise InvalidError(
            "'functions' is not supported by this server; use 'tools'", param="functions"
        )


def refuse_chat_only(body: GenerationIn) -> None:
    """What a prompt that is no chat can't have.

    Raises:
        InvalidError: naming the field.
    """
    for name in CHAT_ONLY:
        value = getattr(body, name)
        if value is not False and value not in (None, [], "none", "auto", -1):
            raise InvalidError("is possible in chats only", param=name)


def sampling_of(
    body: GenerationIn, defaults: Mapping[str, Any], *, num_probs: int
) -> SamplingParams:
    """How to pick tokens; what is absent is the model's default, or stays the engine's.

    Raises:
        InvalidError: naming the field.
    """
    breakers = body.dry_sequence_breakers
    by_id, by_text = biases_of(body.logit_bias)
    given = {name: getattr(body, name) for name in _SAME_NAME}
    return SamplingParams(
        **{**defaults, **{name: value for name, value in given.items() if value is not None}},
        dry_sequence_breakers=None if breakers is None else tuple(map(valid_text, breakers)),
        samplers=_samplers(body.samplers),
        logit_bias=by_id,
        logit_bias_texts=by_text,
        num_probs=num_probs,
        grammar=grammar_of(body),
    )


def limits_of(body: GenerationIn) -> Limits:
    """When to end. -1 is no limit but the context's; a huge one is capped by the engine.

    Raises:
        InvalidError: naming the field.
    """
    given = (getattr(body, name) for name in GenerationIn.LENGTH_FIELDS)
    max_tokens = next((value for value in given if value is not None), None)
    return Limits(
        max_tokens=None if max_tokens == -1 else max_tokens,
        stop=stops_of(body.stop, param="stop"),
        min_indent=body.n_indent,
        max_predict_ms=max(0, body.t_max_predict_ms),
    )


def context_of(body: GenerationIn) -> ContextParams:
    """What may be reused and, when the context is full, given up."""
    return ContextParams(
        cache_prompt=body.cache_prompt,
        n_cache_reuse=body.n_cache_reuse,
        n_keep=body.n_keep,
        n_discard=body.n_discard,
    )


def reasoning_budget_of(body: GenerationIn) -> int | None:
    """Tokens that all reasoning of an answer may have; None: any number."""
    given = (body.reasoning_budget_tokens, body.thinking_budget_tokens)
    budget = next((value for value in given if value is not None), -1)
    return None if budget < 0 else budget


def asked_of(
    body: GenerationIn,
    context: SubmitContext,
    sampling: SamplingParams,
    answer: AnswerParams = DEFAULT_ANSWER,
) -> Asked:
    """All of it but the prompts.

    Raises:
        InvalidError: naming the field.
    """
    return Asked(
        sampling=sampling,
        limits=limits_of(body),
        context=context_of(body),
        preserved_tokens=tuple(valid_text(text) for text in body.preserved_tokens or ()),
        adapters=adapters_of(body.lora, context.num_adapters),
        answer=answer,
    )


def answers_to_each(
    prompts: Sequence[Prompt], body: GenerationIn, context: SubmitContext, *, param: str
) -> int:
    """How many answers each of `prompts`, in the field `param`, gets.

    Raises:
        InvalidError: too many, or too much text for so many.
    """
    per_prompt = num_choices_of(body, context.num_slots)
    count = per_prompt * len(prompts)
    if count > MAX_CHOICES:
        raise InvalidError(
            f"asks for {count} completions, at most {MAX_CHOICES} are allowed",
            param=param,
            bound="choices",
        )
    refuse_too_much(prompts, per_prompt, param=param)
    return per_prompt


def seeds_of(body: GenerationIn, count: int) -> list[int]:
    """One seed a choice; drawn now if none is asked for, so that the request can be repeated."""
    seed = body.seed
    first = new_seed() if seed is None or seed in (-1, MAX_SEED) else seed % 2**32
    return [(first + index) % MAX_SEED for index in range(count)]


def num_choices_of(body: GenerationIn, num_slots: int) -> int:
    """How many answers to each prompt.

    Raises:
        InvalidError: more than the model has slots.
    """
    name, value = ("n", body.n) if body.n is not None else ("n_cmpl", body.n_cmpl)
    value = value or 1
    if value > num_slots:
        raise InvalidError(
            f"Field '{name}': Value must be between 1 <= value <= {num_slots}, but got {value}",
            param=name,
            bound="n",
        )
    return value


def _samplers(samplers: Any) -> tuple[str, ...] | None:
    if samplers is None:
        return None
    if isinstance(samplers, str):
        return tuple(SAMPLER_LETTERS[c] for c in samplers[:MAX_SAMPLERS] if c in SAMPLER_LETTERS)
    if not isinstance(samplers, list) or not all(isinstance(name, str) for name in samplers):
        raise InvalidError("must be a list of names or a text of letters", param="samplers")
    if len(samplers) > MAX_SAMPLERS:
        raise InvalidError(
            f"has {len(samplers)} names, at most {MAX_SAMPLERS} are allowed", param="samplers"
        )
    return tuple(samplers)
