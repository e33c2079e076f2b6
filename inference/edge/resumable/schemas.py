"""Wire types of streams that can be taken up again."""

from __future__ import annotations

from typing import Annotated

from ninja import Schema
from pydantic import BaseModel, ConfigDict, Field, StrictStr

from inference.edge.resumable.wish import MAX_STREAM_ID_CHARS
from inference.edge.wire_types import WireSchema

MAX_LOOKUPS = 256


class StreamsLookupIn(WireSchema):
    """POST /v1/streams/lookup."""

    conversation_ids: Annotated[
        list[Annotated[StrictStr, Field(max_length=MAX_STREAM_ID_CHARS)]],
        Field(max_length=MAX_LOOKUPS, examples=[["my-conversation"]]),
    ]


class NameQuery(BaseModel):
    """Which stream."""

    conv_id: str = Field(
        "",
        description="The name given in `X-Conversation-Id`, or that the answer had there.",
        examples=["my-conversation"],
    )


class OffsetQuery(BaseModel):
    """From where on."""

    model_config = ConfigDict(populate_by_name=True)

    offset: str = Field(
        "",
        alias="from",
        description="How many bytes of events the client has; what breaks silence is no event.",
        examples=["0"],
    )


class PlaceQuery(NameQuery, OffsetQuery):
    """Which stream, and from where on."""


class StreamOut(Schema):
    """One stream. `total_bytes`: of its events so far; times in whole seconds, 0: not yet."""

    conversation_id: str
    is_done: bool
    total_bytes: int
    started_at: int
    completed_at: int
