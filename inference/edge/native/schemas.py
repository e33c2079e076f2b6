"""Wire types of llama-server's own routes."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import Field, StrictBool, StrictInt, StrictStr

from inference.edge.openai.schemas import GenerationIn, NumProbs
from inference.edge.wire_types import MAX_INT32, ModelName, ShortText, WireSchema

MAX_FIELDS = 64  # of a reply that may be named
MAX_EXTRA_FILES = 256
MAX_TOKENS = 128 * 1024  # to be turned into text at once

TokenId: TypeAlias = Annotated[StrictInt, Field(ge=0, le=MAX_INT32)]


class NativeGenerationIn(GenerationIn):
    """What the routes that answer in llama-server's shape have in common."""

    logprobs: NumProbs | None = None
    return_tokens: StrictBool = False
    response_fields: Annotated[list[ShortText], Field(max_length=MAX_FIELDS)] | None = None
    id_slot: StrictInt = -1  # no slot can be asked for: the engine takes the best one


class NativeCompletionIn(NativeGenerationIn):
    """POST /completion."""

    prompt: Any = None


class ExtraFileIn(WireSchema):
    """One of `input_extra`."""

    text: StrictStr
    filename: ShortText = "tmp"


class InfillIn(NativeGenerationIn):
    """POST /infill."""

    input_prefix: StrictStr
    input_suffix: StrictStr
    prompt: StrictStr = ""
    input_extra: Annotated[list[ExtraFileIn], Field(max_length=MAX_EXTRA_FILES)] = []


class TokenizeIn(WireSchema):
    """POST /tokenize."""

    model: ModelName | None = None
    content: StrictStr = ""
    add_special: StrictBool = False
    parse_special: StrictBool = True
    with_pieces: StrictBool = False


class DetokenizeIn(WireSchema):
    """POST /detokenize."""

    model: ModelName | None = None
    tokens: Annotated[list[TokenId], Field(max_length=MAX_TOKENS)] = []
