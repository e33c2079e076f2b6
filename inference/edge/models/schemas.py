"""Wire types of the routes of models."""

from __future__ import annotations

from inference.edge.wire_types import ModelName, WireSchema


class ModelIn(WireSchema):
    """The model that something is to be done with."""

    model: ModelName | None = None
