"""Types of fields on the wire that API families share. `null` is the same as absent; unknown fields
are ignored.

Integers are JSON integers (no text, no boolean, no fraction); numbers may be integers. Where
llama-server clips a value, it is clipped here too, elsewhere it is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from inference.text.depth import MAX_DEPTH, is_deep

MAX_INT32 = 2**31 - 1
MAX_STOPS = 16
MAX_STOP_CHARS = 256
MAX_SHORT_CHARS = 1024
MAX_MESSAGES = 4096
MAX_MODEL_NAME_CHARS = 512
MAX_NUMBER = 1e6  # as in the engine, whose arithmetic has 32 bits


def clip(low: float | None, high: float | None) -> AfterValidator:
    """Moves a number into the range without a word."""

    def move(value: float) -> float:
        value = value if low is None else max(low, value)
        return value if high is None else min(high, value)

    return AfterValidator(move)


def clip_int(low: int, high: int = MAX_INT32) -> AfterValidator:
    """As `clip`."""

    def move(value: int) -> int:
        return min(high, max(low, value))

    return AfterValidator(move)


def refuse_deep(value: Any) -> Any:
    """`value`, unless it is nested too deeply."""
    if is_deep(value):
        message = f"is nested too deeply, at most {MAX_DEPTH} levels are allowed"
        raise PydanticCustomError("too_deep", message)
    return value


FreeForm: TypeAlias = Annotated[Any, AfterValidator(refuse_deep)]
Number: TypeAlias = Annotated[
    float, Field(strict=True, allow_inf_nan=False, ge=-MAX_NUMBER, le=MAX_NUMBER)
]
Positive: TypeAlias = Annotated[Number, clip(0.0, None)]
Share: TypeAlias = Annotated[Number, clip(0.0, 1.0)]
Count: TypeAlias = Annotated[StrictInt, Field(ge=0), clip_int(0)]
CountOrAll: TypeAlias = Annotated[StrictInt, Field(ge=-1), clip_int(-1)]
ShortText: TypeAlias = Annotated[StrictStr, Field(max_length=MAX_SHORT_CHARS)]
ModelName: TypeAlias = Annotated[StrictStr, Field(max_length=MAX_MODEL_NAME_CHARS)]


class WireSchema(BaseModel):
    """Base: an object whose null fields are absent."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="wrap")
    @classmethod
    def _null_is_absent(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, dict):
            data = {name: value for name, value in data.items() if value is not None}
        return handler(data)
