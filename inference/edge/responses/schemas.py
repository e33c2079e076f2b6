"""Wire types of the Responses API; see `inference.edge.wire_types` for the rules."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, Field, StrictBool, StrictStr

from inference.edge.openai.schemas import GenerationIn, NumProbs
from inference.edge.wire_types import CountOrAll, FreeForm, WireSchema, refuse_deep

MAX_METADATA = 16
MAX_METADATA_KEY_CHARS = 64
MAX_METADATA_CHARS = 512  # of a value
MAX_ID_CHARS = 128
MAX_INCLUDES = 32
MAX_INSTRUCTIONS_CHARS = 1024 * 1024  # repeated in every object of the response
INCLUDE_LOGPROBS = "message.output_text.logprobs"
# What else the API's clients ask for; there is nothing of it in a response of this server.
INCLUDES = (
    INCLUDE_LOGPROBS,
    "reasoning.encrypted_content",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
)

Id: TypeAlias = Annotated[StrictStr, Field(max_length=MAX_ID_CHARS)]
Key: TypeAlias = Annotated[StrictStr, Field(max_length=MAX_METADATA_KEY_CHARS)]
Value: TypeAlias = Annotated[StrictStr, Field(max_length=MAX_METADATA_CHARS)]


def _known(name: str) -> str:
    if name not in INCLUDES:
        raise ValueError(f"must be one of {', '.join(INCLUDES)}")
    return name


def _truncation(value: str) -> str:
    if value not in ("auto", "disabled"):
        raise ValueError("must be 'auto' or 'disabled'")
    return value


class ReasoningIn(WireSchema):
    """`reasoning`."""

    effort: Annotated[StrictStr, Field(max_length=64)] | None = None
    summary: Annotated[StrictStr, Field(max_length=64)] | None = None
    generate_summary: Annotated[StrictStr, Field(max_length=64)] | None = None  # its older name


class TextIn(WireSchema):
    """`text`."""

    format: FreeForm = None
    verbosity: Annotated[StrictStr, Field(max_length=64)] | None = None


class ResponseIn(GenerationIn):
    """POST /v1/responses. `input` is a text or a list of items, see `items`."""

    input: FreeForm = None
    instructions: Annotated[StrictStr, Field(max_length=MAX_INSTRUCTIONS_CHARS)] | None = None
    max_output_tokens: CountOrAll | None = None
    top_logprobs: NumProbs | None = None
    include: Annotated[
        list[Annotated[StrictStr, AfterValidator(_known)]], Field(max_length=MAX_INCLUDES)
    ] = []
    parallel_tool_calls: StrictBool | None = None
    text: TextIn = TextIn()
    reasoning: ReasoningIn = ReasoningIn()
    chat_template_kwargs: Annotated[dict[str, Any], AfterValidator(refuse_deep)] | None = None
    metadata: Annotated[dict[Key, Value], Field(max_length=MAX_METADATA)] = {}
    truncation: Annotated[StrictStr, AfterValidator(_truncation)] = "disabled"
    store: StrictBool = True
    background: StrictBool = False
    previous_response_id: Id | None = None

    # Known, but not in this version; refused (see convert).
    conversation: FreeForm = None
    prompt: FreeForm = None


class RetrieveQuery(BaseModel):
    """GET /v1/responses/{id}. `include` and `include_obfuscation` change nothing here."""

    stream: bool = False
    starting_after: Annotated[int, Field(ge=0)] | None = None
