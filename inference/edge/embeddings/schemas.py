"""Wire types of the routes that compute vectors and scores, as OpenAI, llama-server, Jina and TEI
have them. `null` is the same as absent; unknown fields are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictBool, StrictInt

from inference.edge.wire_types import FreeForm, ModelName, WireSchema
from inference.protocol.vectors import MAX_NORM, UNCHANGED

MAX_DIMENSIONS = 65_536


class EmbeddingsIn(WireSchema):
    """Texts that become vectors. `content` is llama-server's name of `input`."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={"examples": [{"input": ["First text", "Second text"]}]},
    )

    model: ModelName | None = None
    input: FreeForm = None
    content: FreeForm = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[StrictInt, Field(ge=1, le=MAX_DIMENSIONS)] | None = None
    embd_normalize: Annotated[StrictInt, Field(ge=UNCHANGED, le=MAX_NORM)] | None = None


class RerankIn(WireSchema):
    """A query and texts to rate: `documents` as Jina calls them, or `texts` as TEI does."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [{"query": "What is a panda?", "documents": ["hi", "a bear of China"]}]
        },
    )

    model: ModelName | None = None
    query: FreeForm = None
    documents: FreeForm = None
    texts: FreeForm = None
    top_n: Annotated[StrictInt, Field(ge=1)] | None = None
    return_text: StrictBool = False
    truncate: StrictBool = False

    @property
    def is_tei(self) -> bool:
        """Whose form it has."""
        return self.texts is not None

    @property
    def texts_name(self) -> str:
        """The field that has the texts."""
        return "texts" if self.is_tei else "documents"

    @property
    def texts_value(self) -> Any:
        """What it has."""
        return self.texts if self.is_tei else self.documents
