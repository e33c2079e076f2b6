"""Wire types of the Ollama family; the rules of `inference.edge.wire_types` hold."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field, StrictBool, StrictInt, StrictStr

from inference.edge.openai.schemas import MIN_REPEAT_PENALTY, NumProbs
from inference.edge.wire_types import (
    MAX_MESSAGES,
    MAX_NUMBER,
    Count,
    CountOrAll,
    FreeForm,
    ModelName,
    Number,
    Positive,
    Share,
    WireSchema,
)

MAX_DURATION_CHARS = 64
Duration: TypeAlias = (
    Annotated[StrictStr, Field(max_length=MAX_DURATION_CHARS)]
    | Annotated[float, Field(allow_inf_nan=False, strict=True)]
)


class OptionsIn(WireSchema):
    """`options`: those that change an answer. What else a client may send is set where the model is
    loaded, by an administrator."""

    num_predict: Annotated[StrictInt, Field(ge=-2)] | None = None
    num_keep: CountOrAll | None = None
    stop: FreeForm = None
    seed: StrictInt | None = None
    temperature: Positive | None = None
    top_k: StrictInt | None = None
    top_p: Share | None = None
    min_p: Share | None = None
    typical_p: Number | None = None
    repeat_last_n: CountOrAll | None = None
    repeat_penalty: Annotated[Number, Field(ge=MIN_REPEAT_PENALTY, le=MAX_NUMBER)] | None = None
    presence_penalty: Number | None = None
    frequency_penalty: Number | None = None
    mirostat: StrictInt | None = None
    mirostat_tau: Number | None = None
    mirostat_eta: Number | None = None


class OllamaMessageIn(WireSchema):
    """One message."""

    role: StrictStr
    content: FreeForm = None
    thinking: StrictStr | None = None
    images: FreeForm = None
    tool_calls: FreeForm = None
    tool_name: StrictStr | None = None
    tool_call_id: StrictStr | None = None


class OllamaGenerationIn(WireSchema):
    """Fields of both routes that write."""

    model: ModelName | None = None
    stream: StrictBool = True
    format: FreeForm = None
    options: OptionsIn = OptionsIn()
    keep_alive: Duration | None = None
    think: StrictBool | StrictStr | None = None
    logprobs: StrictBool = False
    top_logprobs: NumProbs | None = None


class ChatIn(OllamaGenerationIn):
    """POST /api/chat."""

    messages: Annotated[list[OllamaMessageIn], Field(max_length=MAX_MESSAGES)] = []
    tools: FreeForm = None


class GenerateIn(OllamaGenerationIn):
    """POST /api/generate."""

    prompt: StrictStr = ""
    suffix: StrictStr = ""
    system: StrictStr = ""
    template: StrictStr = ""
    raw: StrictBool = False
    images: FreeForm = None


class EmbedIn(WireSchema):
    """POST /api/embed."""

    model: ModelName | None = None
    input: FreeForm = None
    truncate: StrictBool = True
    dimensions: Annotated[Count, Field(ge=1)] | None = None


class EmbeddingsIn(WireSchema):
    """POST /api/embeddings, the older form for one text."""

    model: ModelName | None = None
    prompt: StrictStr = ""


class ShowIn(WireSchema):
    """POST /api/show; `name` is what `model` was called before."""

    model: ModelName | None = None
    name: ModelName | None = None
