"""LoRA adapters of a model config, as an administrator writes them down."""

from __future__ import annotations

import math
from typing import Any

from inference.models import PATH_LEN
from inference.protocol.params import MAX_ADAPTER_SCALE, MAX_ADAPTERS
from inference.protocol.spec import AdapterSpec
from inference.registry.readings import model_read, place_of
from llamaweb.lib.errors import InvalidError

NAME_LEN = 128
KEYS = {"path", "scale", "name"}
LORA = "lora"


def adapters_check(value: Any, *, architecture: str) -> list[dict[str, Any]]:
    """`value` as it is kept: each with the whole path of a LoRA file, a scale and a name. Reads the
    files, which takes a second or so. `architecture`: of the model, "" if it isn't known.

    Raises:
        InvalidError: not such a list, or a file that can't be an adapter of this model.
    """
    if not isinstance(value, list) or len(value) > MAX_ADAPTERS:
        raise _wrong(f"give a list of up to {MAX_ADAPTERS} adapters")
    return [_adapter(item, number, architecture) for number, item in enumerate(value)]


def adapter_specs(value: list[dict[str, Any]]) -> tuple[AdapterSpec, ...]:
    """What an engine is told of kept adapters."""
    return tuple(AdapterSpec(**item) for item in value)


def _adapter(item: Any, number: int, architecture: str) -> dict[str, Any]:
    if not isinstance(item, dict) or not item.keys() <= KEYS:
        raise _wrong(f"adapter {number}: give an object with path, and scale and name if you like")
    path, scale, name = item.get("path"), item.get("scale", 1.0), item.get("name", "")
    if not isinstance(path, str) or not 0 < len(path) <= PATH_LEN:
        raise _wrong(f"adapter {number}: path is missing")
    is_number = isinstance(scale, int | float) and not isinstance(scale, bool)
    if not is_number or not math.isfinite(scale) or abs(scale) > MAX_ADAPTER_SCALE:
        raise _wrong(
            f"adapter {number}: scale is a number between -{MAX_ADAPTER_SCALE:g} and "
            f"{MAX_ADAPTER_SCALE:g}"
        )
    if not isinstance(name, str) or len(name) > NAME_LEN or not name.isprintable():
        raise _wrong(f"adapter {number}: name is a text of up to {NAME_LEN} characters")
    place = _place(path, number, architecture)
    return {"path": place, "scale": float(scale), "name": name.strip()}


def _place(path: str, number: int, architecture: str) -> str:
    try:
        place = place_of(path)
        found, _ = model_read(place)
    except InvalidError as error:
        raise _wrong(f"adapter {number}: {error.message}") from error
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "it can't be resolved"
        raise _wrong(f"adapter {number}: the file can't be read: {reason}") from error
    facts = found.facts
    if facts is None:
        raise _wrong(f"adapter {number}: {found.problem}")
    if facts.kind != "adapter" or facts.adapter.kind != LORA:
        raise _wrong(f"adapter {number}: this file is no LoRA adapter")
    if architecture and facts.architecture != architecture:
        raise _wrong(
            f"adapter {number}: it is for models of the architecture {facts.architecture}, this "
            f"one's is {architecture}"
        )
    return str(place)


def _wrong(message: str) -> InvalidError:
    return InvalidError(message, param="adapters")
