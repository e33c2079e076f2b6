"""Messages in parts, whatever a family calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inference.protocol.requests import Message
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

MAX_PARTS = 1024
PART_SEPARATOR = "\n\n"


def parts_of(content: Any, path: str) -> list[dict[str, Any]]:
    """The parts of a content that stands at `path`.

    Raises:
        InvalidError: no list, an empty or a long one, or a part is no object.
    """
    if not isinstance(content, list):
        raise InvalidError("must be text or a list of parts", param=path)
    if not content:
        raise InvalidError("the list of parts must not be empty", param=path)
    if len(content) > MAX_PARTS:
        raise InvalidError(f"has {len(content)} parts, at most {MAX_PARTS} are allowed", param=path)
    for index, part in enumerate(content):
        if not isinstance(part, dict):
            raise InvalidError("must be an object with a 'type'", param=f"{path}[{index}]")
    return content


def text_at(part: Mapping[str, Any], field: str, path: str) -> str:
    """The text in a field of the part at `path`.

    Raises:
        InvalidError: it is none.
    """
    text = part.get(field)
    if not isinstance(text, str):
        raise InvalidError("must be text", param=f"{path}.{field}")
    return valid_text(text)


def part_text(
    part: Mapping[str, Any], kinds: Mapping[str, str], modalities: Mapping[str, str], path: str
) -> str:
    """The text of the part at `path`. `kinds`: where parts have theirs, by type; `modalities`: what
    the types that aren't text are.

    Raises:
        InvalidError: naming what stands there instead.
    """
    kind = part.get("type")
    modality = modalities.get(kind) if isinstance(kind, str) else None
    if modality is not None:
        raise no_modality(modality, path)
    field = kinds.get(kind) if isinstance(kind, str) else None
    if field is None:
        raise InvalidError("unsupported content part type", param=f"{path}.type")
    return text_at(part, field, path)


def no_modality(modality: str, path: str) -> InvalidError:
    """The error for a part that isn't text: an image, for one."""
    return InvalidError(
        f"this model takes text only, {modality} input is not supported", param=path
    )


def refuse_two_answers(messages: Sequence[Message]) -> None:
    """Of several answers at the end nobody can tell which one is to be continued.

    Raises:
        InvalidError: there are.
    """
    if len(messages) > 1 and messages[-1].role == messages[-2].role == "assistant":
        raise InvalidError(
            "Cannot have 2 or more assistant messages at the end of the list", param="messages"
        )
