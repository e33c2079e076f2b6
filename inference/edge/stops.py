"""Strings that end an answer, in whatever field a family has them."""

from __future__ import annotations

from typing import Any

from inference.edge.wire_types import MAX_STOP_CHARS, MAX_STOPS
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError


def stops_of(stop: Any, *, param: str) -> tuple[str, ...]:
    """The strings of a text or a list of texts, each once; empty ones mean nothing.

    Raises:
        InvalidError: naming the field `param`.
    """
    if stop is None:
        return ()
    strings = [stop] if isinstance(stop, str) else stop
    if not isinstance(strings, list):
        raise InvalidError("must be text or a list of texts", param=param)
    if len(strings) > MAX_STOPS:
        raise InvalidError(
            f"has {len(strings)} strings, at most {MAX_STOPS} are allowed",
            param=param,
            bound="stop",
        )
    for index, string in enumerate(strings):
        if not isinstance(string, str):
            raise InvalidError("must be text", param=f"{param}[{index}]")
        if len(string) > MAX_STOP_CHARS:
            raise InvalidError(
                f"is longer than {MAX_STOP_CHARS} characters",
                param=f"{param}[{index}]",
                bound="stop",
            )
    return tuple(dict.fromkeys(valid_text(string) for string in strings if string))
