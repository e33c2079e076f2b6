"""Texts on the wire, in all forms that clients send, to texts of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from inference.edge.prompt_bounds import refuse_too_much
from inference.edge.text_prompts import RawPrompt, is_list_of_prompts, prompt_of
from inference.protocol.requests import TextPrompt
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

MAX_INPUTS: Final = 2048


def inputs_of(value: Any, param: str) -> tuple[RawPrompt, ...]:
    """One text, token ids, both in one, an object with either, or a list of such.

    Raises:
        InvalidError: nothing, too many or too much, or something else; `param` is the JSON path.
    """
    if value is None:
        raise InvalidError('"input" or "content" must be provided', param=param)
    if value == []:
        raise InvalidError(f'"{param}" must not be empty', param=param)
    is_many = is_list_of_prompts(value)
    items = value if is_many else [value]
    refuse_many(len(items), param)
    found = tuple(
        _input(item, f"{param}[{index}]" if is_many else param) for index, item in enumerate(items)
    )
    refuse_too_much(found, 1, param=param)
    return found


def texts_of(value: Any, param: str) -> tuple[str, ...]:
    """A list of texts, or of objects with one.

    Raises:
        InvalidError: as `inputs_of`.
    """
    if not isinstance(value, list) or not value:
        raise InvalidError(f'"{param}" must be a non-empty string array', param=param)
    refuse_many(len(value), param)
    return tuple(_text(item, f"{param}[{index}]") for index, item in enumerate(value))


def refuse_many(num: int, param: str) -> None:
    """Raises InvalidError: more than `MAX_INPUTS`."""
    if num > MAX_INPUTS:
        raise InvalidError(f"has {num} texts, at most {MAX_INPUTS} are allowed", param=param)


def _text(item: Any, path: str) -> str:
    if isinstance(item, Mapping):
        item = item.get("text")
    if not isinstance(item, str):
        raise InvalidError("must be text", param=path)
    return valid_text(item)


def _input(item: Any, path: str) -> RawPrompt:
    return _of_object(item, path) if isinstance(item, Mapping) else prompt_of(item, path)


def _of_object(item: Mapping[str, Any], path: str) -> RawPrompt:
    """A prompt without media, or the parts of a message, joined."""
    if item.get("multimodal_data"):
        raise InvalidError("this model reads text only", param=f"{path}.multimodal_data")
    if isinstance(item.get("prompt_string"), str):
        return TextPrompt(valid_text(item["prompt_string"]))
    parts = item.get("content")
    if isinstance(parts, str):
        return TextPrompt(valid_text(parts))
    if not isinstance(parts, list) or not parts:
        raise InvalidError("must have prompt_string or content", param=path)
    return TextPrompt("".join(_part(part, f"{path}.content[{i}]") for i, part in enumerate(parts)))


def _part(part: Any, path: str) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind not in ("text", "input_text"):
        raise InvalidError("must be a part of type text: this model reads nothing else", param=path)
    return _text(part, f"{path}.text")
