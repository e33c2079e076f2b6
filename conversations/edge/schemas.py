"""What the browser app sends and gets: one form for REST, WebSocket and SSE.

Instants are ISO 8601 strings in UTC. Ids are opaque strings. The front end's types are made from
these classes (`manage.py app_schema`), so a field is described here and nowhere else.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from conversations.parts import MAX_PARTS, MAX_TEXT_CHARS

ID_LEN = 40
CLIENT_KEY_LEN = 64
MODEL_NAME_LEN = 128
TITLE_LEN = 200

Id = Annotated[str, Field(min_length=1, max_length=ID_LEN, pattern=r"^[A-Za-z0-9-]+$")]
ClientKey = Annotated[
    str,
    Field(
        max_length=CLIENT_KEY_LEN,
        pattern=r"^[A-Za-z0-9_-]*$",
        description="the client's own random name for this act: sent again, it finds what the "
        "first one made",
    ),
]
ModelName = Annotated[str, Field(max_length=MODEL_NAME_LEN)]
Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]

MessageState = Literal["done", "streaming", "stopped", "failed", "interrupted"]
TurnState = Literal[
    "queued", "running", "waiting_for_user", "finished", "cancelled", "failed", "interrupted"
]
ModelState = Literal["loaded", "loading", "unloaded", "draining", "stopped", "failed", "unknown"]
Capability = Literal["tools", "reasoning"]


class In(BaseModel):
    """What a client sends: fields that aren't known are refused by name."""

    model_config = ConfigDict(extra="forbid")


# --- what there is


class PartOut(BaseModel):
    """A piece of a message; which fields are there depends on `type` (conversations.parts)."""

    type: Literal["text", "reasoning", "tool_call", "tool_result", "attachment"]
    text: str = ""
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    is_error: bool = False
    attachment_id: str = ""
    mime: str = ""
    size: int = 0


class ConversationOut(BaseModel):
    """A row of the list."""

    id: str
    title: str
    title_is_custom: bool
    model_name: str = Field(description='"": the default model')
    current_leaf_id: str | None
    revision: int
    created_at: datetime
    updated_at: datetime
    is_owner: bool
    can_write: bool
    is_running: bool = Field(description="an answer is being written")


class MessageOut(BaseModel):
    """A message. While `state` is "streaming" its text is in the stream of its turn's generation.
    A deleted one says so and holds nothing else."""

    id: str
    parent_id: str | None
    number: int = Field(description="rises within the conversation; siblings are in its order")
    revision: int
    role: Literal["system", "user", "assistant"]
    state: MessageState
    parts: list[PartOut]
    created_at: datetime
    edited_at: datetime | None
    model_name: str = ""
    finish_reason: str = ""
    error_code: str = ""
    error_message: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    is_deleted: bool = False


class TurnOut(BaseModel):
    """A turn; `answer_id` is the message it writes, `generation_id` the stream to follow."""

    id: str
    user_message_id: str
    answer_id: str
    revision: int
    state: TurnState
    is_stopping: bool
    can_retry: bool
    generation_id: str
    model_name: str
    attempt: int
    error_code: str
    created_at: datetime
    ended_at: datetime | None
    is_deleted: bool = False


class ConversationPage(BaseModel):
    """A page of the list, the newest activity first."""

    conversations: list[ConversationOut]
    next: str | None = Field(description="cursor of the next page; null: this is the last one")


class ConversationState(BaseModel):
    """A conversation, or what changed in it, complete up to `revision`. `has_more`: ask again."""

    conversation: ConversationOut
    revision: int
    messages: list[MessageOut]
    turns: list[TurnOut]
    has_more: bool = False


class ModelOut(BaseModel):
    """A model that may be chosen. Texts are "" and lengths 0 where nobody knows."""

    name: str
    is_default: bool
    is_ready: bool = Field(description="an engine answers now")
    state: ModelState = Field(
        default="unknown",
        description="unloaded: a message has it loaded; stopped: an administrator has unloaded it; "
        "draining: it ends what it has begun; failed: it can't be loaded or reached",
    )
    reason: str = Field(default="", description="why not, if not")
    load_progress: float | None = Field(
        default=None, description="0..1 while it is being loaded; null: its engine doesn't tell"
    )
    max_context: int = Field(default=0, description="tokens of one conversation")
    title: str = Field(default="", description="its name in its file")
    aliases: list[str] = []
    tags: list[str] = []
    quantization: str = ""
    capabilities: list[Capability] = Field(
        default=[], description="what it was made for, as far as its files say"
    )


class ModelList(BaseModel):
    """All models that may be chosen, the default one first."""

    models: list[ModelOut]


class Limits(BaseModel):
    """Bounds the app keeps to by itself."""

    text_chars: int
    title_chars: int
    open_conversations: int
    frame_bytes: int


class MeOut(BaseModel):
    """Who is signed in, and what the app has to know at its start."""

    username: str
    is_staff: bool
    theme: Literal["system", "light", "dark"]
    language: Literal["", "en", "de"] = Field(description='"": what the browser asks for')
    models: list[ModelOut]
    has_only_starter_model: bool = Field(description="nothing but the tiny demo model is there")
    limits: Limits


# --- what can be asked for (an act's arguments; REST puts the id into the address)


class PartIn(In):
    """What a person writes; other types follow with attachments."""

    type: Literal["text"] = "text"
    text: Text


class ConversationCreate(In):
    """Make an empty conversation."""

    title: Annotated[str, Field(max_length=TITLE_LEN)] = ""
    model_name: ModelName = ""
    client_key: ClientKey = ""


class TitleIn(In):
    """A title."""

    title: Annotated[str, Field(min_length=1, max_length=TITLE_LEN)]


class ConversationRename(TitleIn):
    """Give a title."""

    conversation_id: Id


class ConversationRef(In):
    """Delete or restore a conversation."""

    conversation_id: Id


class LeafIn(In):
    """A message whose branch is to be shown."""

    message_id: Id


class LeafSelect(LeafIn):
    """Show the branch that holds `message_id`; its newest leaf becomes the current one."""

    conversation_id: Id


class TurnStart(In):
    """Ask something. Without a conversation a new one is made, in the same transaction.

    `parent_id`: the message to follow; null: the current leaf.
    """

    conversation_id: Id | None = None
    parts: Annotated[list[PartIn], Field(min_length=1, max_length=MAX_PARTS)]
    parent_id: Id | None = None
    model_name: ModelName | None = Field(default=None, description="null: the conversation's")
    client_key: ClientKey = ""


class TurnRef(In):
    """Stop a turn."""

    turn_id: Id


class AgainIn(In):
    """How to answer again; `model_name` null: the one that answered, or the conversation's."""

    model_name: ModelName | None = None
    client_key: ClientKey = ""


class TurnRetry(AgainIn):
    """Try a turn again that failed, was stopped or interrupted."""

    turn_id: Id


class MessageRegenerate(AgainIn):
    """Another answer beside this one."""

    message_id: Id


class EditIn(In):
    """Other text of a message."""

    parts: Annotated[list[PartIn], Field(min_length=1, max_length=MAX_PARTS)]
    in_place: bool = False
    model_name: ModelName | None = None
    client_key: ClientKey = ""


class MessageEdit(EditIn):
    """Other text: as a sibling (a person's message is then answered), or in place."""

    message_id: Id


class MessageRef(In):
    """Delete a message with all that follows it."""

    message_id: Id


# --- what acts answer


class ActResult(BaseModel):
    """What came of an act; only what it made or changed is set."""

    conversation_id: str | None = None
    revision: int | None = Field(default=None, description="of the conversation, after the act")
    message_id: str | None = None
    turn_id: str | None = None
    answer_id: str | None = None
    was_stopped: bool | None = Field(
        default=None, description="turn.stop: there was something to stop"
    )
    was_told: bool | None = Field(
        default=None, description="turn.answer_now: the model will reason no more"
    )


class ErrorOut(BaseModel):
    """What went wrong; `message` is a sentence for the person, `code` for the program."""

    code: str = Field(
        description="invalid | too_long | signed_out | forbidden | not_found | busy | unavailable"
        " | not_supported | deadline | failed"
    )
    message: str
    param: str | None = None
    retryable: bool = False
    retry_after_s: float | None = None


class ErrorBody(BaseModel):
    """The body of every refused request."""

    error: ErrorOut
