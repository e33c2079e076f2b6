"""Wire types of the routes of models."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictStr

from inference.edge.openai.schemas import MAX_MODEL_NAME_CHARS, WireSchema


class ModelIn(WireSchema):
    """The model that something is to be done with."""

    model: Annotated[StrictStr, Field(max_length=MAX_MODEL_NAME_CHARS)] | None = None
