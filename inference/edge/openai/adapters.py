"""The wire's `lora`: which of the model's adapters a request uses."""

from __future__ import annotations

import math
from typing import Any

from inference.protocol.params import MAX_ADAPTER_SCALE, MAX_ADAPTERS
from llamaweb.lib.errors import InvalidError


def adapters_of(lora: Any, num_adapters: int) -> tuple[tuple[int, float], ...] | None:
    """(id, scale) of each, the last one of an id; None, the model's defaults, without any.

    Raises:
        InvalidError: naming the field.
    """
    if lora is None or lora == []:
        return None
    if not isinstance(lora, list):
        raise InvalidError("must be a list of objects with 'id' and 'scale'", param="lora")
    if len(lora) > MAX_ADAPTERS:
        raise InvalidError(
            f"has {len(lora)} adapters, at most {MAX_ADAPTERS} are allowed", param="lora"
        )
    return tuple(_adapter(item, f"lora[{i}]", num_adapters) for i, item in enumerate(lora))


def _adapter(item: Any, path: str, num_adapters: int) -> tuple[int, float]:
    if not isinstance(item, dict):
        raise InvalidError("must be an object with 'id' and 'scale'", param=path)
    number, scale = item.get("id"), item.get("scale", 0.0)
    if type(number) is not int:
        raise InvalidError("must be an integer", param=f"{path}.id")
    if not 0 <= number < num_adapters:
        has = f"{num_adapters}, counted from 0" if num_adapters else "none"
        raise InvalidError(
            f"there is no adapter {number}; this model has {has}", param=f"{path}.id"
        )
    is_number = isinstance(scale, int | float) and not isinstance(scale, bool)
    if not is_number or not math.isfinite(scale) or abs(scale) > MAX_ADAPTER_SCALE:
        raise InvalidError(
            f"must be a number between -{MAX_ADAPTER_SCALE:g} and {MAX_ADAPTER_SCALE:g}",
            param=f"{path}.scale",
        )
    return number, float(scale)
