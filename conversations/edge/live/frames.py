"""What goes over the live connection, both ways; docs/live.md tells the story.

Each frame is one JSON object with a `type`. The WebSocket carries all of them; the SSE fallback
carries the server's frames, its client acts through REST.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field

from conversations.edge.schemas import (
    ActResult,
    ConversationOut,
    ConversationState,
    ErrorOut,
    Id,
    In,
    ModelOut,
)

Cursor = Annotated[
    str, Field(max_length=48, pattern=r"^[0-9]+:-?[0-9]+$", description="opaque to clients")
]
Ref = Annotated[str, Field(min_length=1, max_length=64)]
GenerationId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
MAX_CURSORS = 16  # streams of one conversation that a client takes up again


# --- from the client


class Hello(In):
    """The first frame. `feed`: the last revision of the list it knows; null: nothing."""

    type: Literal["hello"]
    feed: Annotated[int, Field(ge=0)] | None = None


class Open(In):
    """Follow a conversation. `revision`: what the client has; null: nothing. `cursors`: the last
    cursor of each stream it has text of. Sent again for an open one, it starts anew from these."""

    type: Literal["open"]
    conversation_id: Id
    revision: Annotated[int, Field(ge=0)] | None = None
    cursors: Annotated[dict[GenerationId, Cursor], Field(max_length=MAX_CURSORS)] = {}


class Close(In):
    """Follow a conversation no more."""

    type: Literal["close"]
    conversation_id: Id


class Ack(In):
    """All frames up to number `n` were taken in; the server holds back what is too far ahead."""

    type: Literal["ack"]
    n: Annotated[int, Field(ge=0)]


class Act(In):
    """Do something; `name` and `args` as in `conversations.edge.acts`. Answered by `Reply`."""

    type: Literal["act"]
    ref: Ref
    name: Annotated[str, Field(max_length=40)]
    args: dict[str, object]


class Ping(In):
    """Answered by `Pong`: tells a client whether anybody is there."""

    type: Literal["ping"]


ClientFrame: TypeAlias = Annotated[
    Hello | Open | Close | Ack | Act | Ping, Field(discriminator="type")
]


# --- from the server (`n` is set when it is sent: 1, 2, 3 … of this connection)


class Numbered(BaseModel):
    """The frame's number within its connection."""

    n: int = 0


class FeedFrame(Numbered):
    """The list of conversations up to `revision`. `reset`: these are the newest ones, forget all
    others; else they changed. `gone`: deleted, or not shared any more. First answer to `Hello`."""

    type: Literal["feed"] = "feed"
    revision: int
    reset: bool
    conversations: list[ConversationOut]
    gone: list[str] = []
    next: str | None = Field(
        default=None, description="with reset: cursor of the next page of the list"
    )


class ConversationFrame(Numbered, ConversationState):
    """A conversation the client follows. `reset`: forget what you have of it. With `has_more` the
    next frame goes on; what is shown should change with the last one."""

    type: Literal["conversation"] = "conversation"
    reset: bool


class Place(BaseModel):
    """In the queue: `ahead` of it (0: next) of `waiting`. `reason`: why nothing moves, e.g. the
    model is loading; "" when it is only other people's turn."""

    ahead: int
    waiting: int
    reason: str = ""


class Prefill(BaseModel):
    """`done` of `total` prompt tokens are evaluated, `cached` of them were known."""

    done: int
    total: int
    cached: int = 0


class StreamEnd(BaseModel):
    """How a generation ended. The stored answer follows in a `conversation` frame."""

    state: Literal["finished", "cancelled", "failed", "gone"]
    code: str = ""
    message: str = ""


class StreamFrame(Numbered):
    """What happens in a generation. `reset`: `deltas` are all of its text, else they are added.
    `deltas` are [kind, text] in order, kind "content" | "reasoning" | "tool_call". `place`,
    `prefill` and `end` are set when they changed. `cursor`: to go on from here."""

    type: Literal["stream"] = "stream"
    conversation_id: str
    turn_id: str
    generation_id: str
    cursor: str
    reset: bool = False
    deltas: list[tuple[Literal["content", "reasoning", "tool_call"], str]] = []
    place: Place | None = None
    prefill: Prefill | None = None
    end: StreamEnd | None = None


class ClosedFrame(Numbered):
    """The server follows this conversation no more. "gone": absent or not yours; "asked": `Close`;
    "too_many": the oldest one gave way to another."""

    type: Literal["closed"] = "closed"
    conversation_id: str
    reason: Literal["gone", "asked", "too_many"]


class ModelsFrame(Numbered):
    """The models that may be chosen: `names` are all of them, the default one first, `models` those
    that are new or have changed since the frame before. The first one holds all."""

    type: Literal["models"] = "models"
    names: list[str]
    models: list[ModelOut]


class ReplyFrame(Numbered):
    """The answer to `Act`: `result` or `error`."""

    type: Literal["reply"] = "reply"
    ref: str
    result: ActResult | None = None
    error: ErrorOut | None = None


class ErrorFrame(Numbered):
    """A frame that was refused; the connection stays unless it closes with a code."""

    type: Literal["error"] = "error"
    error: ErrorOut


class PongFrame(Numbered):
    """Somebody is there."""

    type: Literal["pong"] = "pong"


ServerFrame: TypeAlias = Annotated[
    FeedFrame
    | ConversationFrame
    | StreamFrame
    | ClosedFrame
    | ModelsFrame
    | ReplyFrame
    | ErrorFrame
    | PongFrame,
    Field(discriminator="type"),
]
