"""Wire types of the OpenAI family."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr

from inference.edge.wire_types import (
    MAX_MESSAGES,
    Count,
    CountOrAll,
    FreeForm,
    ModelName,
    Number,
    Positive,
    Share,
    ShortText,
    WireSchema,
    clip,
    clip_int,
    refuse_deep,
)

MAX_SAMPLERS = 64
MAX_BREAKERS = 16  # the engine looks at the whole vocabulary for each
MAX_NUM_PROBS = 20  # as in the engine
MAX_PRESERVED = 256
MIN_REPEAT_PENALTY = 1e-6

NumProbs: TypeAlias = Annotated[StrictInt, Field(ge=0, le=MAX_NUM_PROBS)]


class StreamOptions(WireSchema):
    """`stream_options`."""

    include_usage: StrictBool = False


class GenerationIn(WireSchema):
    """Fields of every completion route."""

    # The first of these that is given counts.
    LENGTH_FIELDS: ClassVar = ("n_predict", "max_completion_tokens", "max_tokens")

    model: ModelName | None = None
    stream: StrictBool = False
    stream_options: StreamOptions = StreamOptions()
    return_progress: StrictBool = False
    timings_per_token: StrictBool = False
    sse_ping_interval: CountOrAll | None = None
    n_predict: CountOrAll | None = None
    max_completion_tokens: CountOrAll | None = None
    max_tokens: CountOrAll | None = None
    n: Annotated[StrictInt, Field(ge=1)] | None = None
    n_cmpl: Annotated[StrictInt, Field(ge=1)] | None = None
    stop: FreeForm = None
    ignore_eos: StrictBool = False
    temperature: Positive | None = None
    dynatemp_range: Number | None = None
    dynatemp_exponent: Number | None = None
    top_k: Annotated[StrictInt, clip_int(0)] | None = None
    top_p: Share | None = None
    min_p: Share | None = None
    top_n_sigma: Number | None = None
    xtc_probability: Share | None = None
    xtc_threshold: Share | None = None
    typical_p: Number | None = None
    repeat_last_n: Count | None = None
    repeat_penalty: Annotated[Number, Field(ge=MIN_REPEAT_PENALTY)] | None = None
    presence_penalty: Number | None = None
    frequency_penalty: Number | None = None
    dry_multiplier: Annotated[Number, Field(ge=0)] | None = None
    dry_base: Number | None = None
    dry_allowed_length: Count | None = None
    dry_penalty_last_n: Count | None = None
    dry_sequence_breakers: (
        Annotated[list[ShortText], Field(min_length=1, max_length=MAX_BREAKERS)] | None
    ) = None
    mirostat: Annotated[StrictInt, clip_int(0, 2)] | None = None
    mirostat_tau: Number | None = None
    mirostat_eta: Number | None = None
    adaptive_target: Annotated[Number, clip(None, 1.0)] | None = None
    adaptive_decay: Annotated[Number, Field(ge=0, le=0.99)] | None = None
    min_keep: Count | None = None
    samplers: FreeForm = None
    logit_bias: FreeForm = None
    seed: StrictInt | None = None
    n_probs: NumProbs | None = None
    post_sampling_probs: StrictBool = False
    n_indent: Count = 0
    t_max_predict_ms: CountOrAll = -1
    cache_prompt: StrictBool = True
    n_cache_reuse: Count = 0
    n_keep: CountOrAll = 0
    n_discard: Count = 0
    grammar: StrictStr | None = None
    grammar_lazy: StrictBool = False
    grammar_triggers: FreeForm = None
    preserved_tokens: Annotated[list[ShortText], Field(max_length=MAX_PRESERVED)] | None = None
    lora: FreeForm = None

    # Of chats only; refused where a text completion asks for something.
    tools: FreeForm = None
    tool_choice: FreeForm = None
    reasoning_budget_tokens: CountOrAll | None = None
    thinking_budget_tokens: CountOrAll | None = None
    reasoning_budget_message: ShortText | None = None
    reasoning_control: StrictBool = False

    response_format: FreeForm = None
    json_schema: FreeForm = None
    structured_outputs: FreeForm = None

    # Known, but not in this version; refused where it asks for something (see convert).
    functions: FreeForm = None


class MessageIn(WireSchema):
    """One message; what its content may be depends on the role (see convert)."""

    role: StrictStr
    content: FreeForm = None
    reasoning_content: StrictStr | None = None
    refusal: StrictStr | None = None
    tool_calls: FreeForm = None
    function_call: FreeForm = None
    tool_call_id: StrictStr | None = None
    name: StrictStr | None = None


class ChatCompletionIn(GenerationIn):
    """POST /v1/chat/completions."""

    messages: Annotated[list[MessageIn], Field(max_length=MAX_MESSAGES)]
    logprobs: StrictBool = False
    top_logprobs: NumProbs | None = None
    chat_template_kwargs: Annotated[dict[str, Any], AfterValidator(refuse_deep)] | None = None
    reasoning_effort: StrictStr | None = None
    reasoning_format: StrictStr | None = None
    parallel_tool_calls: StrictBool | None = None
    add_generation_prompt: StrictBool | None = None
    continue_final_message: FreeForm = None
    echo: StrictBool = False


class CompletionIn(GenerationIn):
    """POST /v1/completions."""

    prompt: Any = None
    logprobs: NumProbs | None = None
    suffix: StrictStr | None = None
    echo: StrictBool = False
