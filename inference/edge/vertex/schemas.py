"""Wire types of Vertex AI's predictions; see `inference.edge.wire_types` for the rules."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from inference.edge.wire_types import WireSchema

MAX_INSTANCES = 128


class PredictIn(WireSchema):
    """What to predict. `instances`: a request each, with its route as `@requestFormat`."""

    instances: Annotated[list[Any], Field(max_length=MAX_INSTANCES)]
