"""How to pick tokens and when to end. `None` always means "the engine's default"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

MAX_ADAPTERS = 16  # of a model
MAX_ADAPTER_SCALE = 100.0  # either way; ordinary ones are about 1
MAX_TRIGGERS = 256  # of a lazy grammar

TriggerKind: TypeAlias = Literal["token", "word", "start", "pattern", "pattern_full"]
GrammarKind: TypeAlias = Literal["gbnf", "json_schema", "regex", "lark"]


@dataclass(frozen=True, slots=True)
class GrammarTrigger:
    """What wakes a lazy grammar: the token `token_id`; the text `value` ("start": as the answer's
    first one, behind white space); or `value` as a regular expression of Python over all that was
    said ("pattern_full": it has to match it whole).

    The grammar begins where the match does, or its first group that isn't empty. Patterns run in
    the engine's loop without a bound on their time: they come from the server itself, never from a
    client.
    """

    kind: TriggerKind
    value: str = ""
    token_id: int = -1


@dataclass(frozen=True, slots=True)
class Grammar:
    """A `text` that the answer must follow; a `lazy` one only from its first trigger on.

    By `kind` it is a grammar in GBNF or llguidance's Lark, a JSON schema (as JSON) or a regular
    expression. `param`: the field of the request that errors are about. `front`: rules of Lark, the
    first one named `front`, for what stands before an answer in the form of a schema or an
    expression. `instead`: rules likewise, for what may come in the place of both, where the form is
    a schema. `lenient`: where it can't be followed it is dropped, instead of ending the answer.
    """

    text: str
    lazy: bool = False
    triggers: tuple[GrammarTrigger, ...] = ()
    kind: GrammarKind = "gbnf"
    param: str = "grammar"
    front: str = ""
    instead: str = ""
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The sampler chain of one sequence, in llama-server's field names and defaults.

    Probabilities are in 0..1; `temperature <= 0` is greedy. `logit_bias` holds (token id, bias)
    pairs, a bias of `-inf` is written as `None`; `logit_bias_texts` the same for every token of a
    text; biases of one token add up. `samplers` names the chain's order; `None` is the default
    order. `num_probs` asks for that many candidates with each token: of the raw logits, or with
    `post_sampling_probs` of what the chain left; `timings_per_token` for the time up to it.
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
    adaptive_target: float | None = None
    adaptive_decay: float | None = None
    min_keep: int | None = None
    samplers: tuple[str, ...] | None = None
    logit_bias: tuple[tuple[int, float | None], ...] = ()
    logit_bias_texts: tuple[tuple[str, float | None], ...] = ()
    ignore_eos: bool = False
    num_probs: int = 0
    post_sampling_probs: bool = False
    timings_per_token: bool = False
    grammar: Grammar | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """When a generation ends by itself.

    `max_tokens` None: to the end of the context; 0: the prompt is evaluated, nothing is generated.
    `stop`: generation ends before any of these strings, which are never part of the output.
    `min_indent`: it ends when a line after the first begins with fewer spaces and tabs; 0: never.
    `max_predict_ms`: it ends with the first line that is complete later than that behind the first
    token; 0: never.
    """

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    min_indent: int = 0
    max_predict_ms: int = 0


@dataclass(frozen=True, slots=True)
class ContextParams:
    """What may happen to a sequence's memory, in llama-server's names where it has one.

    `cache_prompt` False: nothing that is there already is reused. `n_cache_reuse`: pieces of at
    least that many tokens that stand further on in the slot are moved, 0 none: the answer may
    differ a little from one computed afresh. `n_keep`, `n_discard`: what a context shift keeps of
    the beginning (-1 the whole prompt) and drops behind it (0 half of the rest). `conversation`:
    deleting it purges what the prompt cache holds of it.
    """

    cache_prompt: bool = True
    n_cache_reuse: int = 0
    n_keep: int = 0
    n_discard: int = 0
    conversation: str = ""
