"""Wire types of the Anthropic family."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr

from inference.edge.wire_types import (
    MAX_MESSAGES,
    Count,
    FreeForm,
    ModelName,
    Positive,
    Share,
    WireSchema,
    clip_int,
    refuse_deep,
)


class MessageIn(WireSchema):
    """One message; which blocks its content may have depends on the role (see `messages`)."""

    role: StrictStr
    content: FreeForm = None


class PromptIn(WireSchema):
    """What makes the prompt: all of POST /v1/messages/count_tokens."""

    model: ModelName | None = None
    system: FreeForm = None
    messages: Annotated[list[MessageIn], Field(max_length=MAX_MESSAGES)]
    tools: FreeForm = None
    tool_choice: FreeForm = None
    thinking: FreeForm = None
    output_config: FreeForm = None
    output_format: FreeForm = None  # its older place
    chat_template_kwargs: Annotated[dict[str, Any], AfterValidator(refuse_deep)] | None = None


class MessagesIn(PromptIn):
    """POST /v1/messages."""

    max_tokens: Count
    stream: StrictBool = False
    stop_sequences: FreeForm = None
    temperature: Positive | None = None
    top_p: Share | None = None
    top_k: Annotated[StrictInt, clip_int(0)] | None = None
