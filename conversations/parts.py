"""Typed pieces of a message and their JSON form. Pure: values in, values out.

Stored JSON and clients' JSON have the same shape, `{"type": …, fields}`. What is stored is only
parsed; what a client sends is bounded too (`parts_from_client`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

from llamaweb.lib.errors import InvalidError

MAX_PARTS = 32  # of one message a client sends
MAX_TEXT_CHARS = 512 * 1024  # of all text of one message a client sends
TEXT_JOIN = "\n\n"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Visible text, Markdown as it was written."""

    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """What a model thought before it answered."""

    type: ClassVar[str] = "reasoning"
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A call a model asks for; `arguments` is JSON text."""

    type: ClassVar[str] = "tool_call"
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """What came of the call `call_id`."""

    type: ClassVar[str] = "tool_result"
    call_id: str
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class AttachmentPart:
    """A reference to an attachment; `size` in bytes."""

    type: ClassVar[str] = "attachment"
    attachment_id: str
    name: str
    mime: str
    size: int


Part: TypeAlias = TextPart | ReasoningPart | ToolCallPart | ToolResultPart | AttachmentPart
_KINDS: dict[str, type[Part]] = {
    kind.type: kind
    for kind in (TextPart, ReasoningPart, ToolCallPart, ToolResultPart, AttachmentPart)
}
_TYPES: dict[str, type] = {"size": int, "is_error": bool}  # every other field is a string
_NAMES = {str: "a string", int: "a whole number", bool: "true or false"}


def parts_to_json(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """The JSON form of `parts`."""
    return [
        {"type": part.type, **{field.name: getattr(part, field.name) for field in fields(part)}}
        for part in parts
    ]


def parts_from_json(value: object, *, field: str = "parts") -> tuple[Part, ...]:
    """The parts that `value` says.

    Raises:
        InvalidError: naming the field that isn't what it should be.
    """
    if not isinstance(value, list):
        raise InvalidError(f"{field} must be a list", param=field)
    return tuple(_part(item, f"{field}[{index}]") for index, item in enumerate(value))


def _part(value: object, field: str) -> Part:
    if not isinstance(value, dict):
        raise InvalidError(f"{field} must be an object", param=field)
    name = value.get("type")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidError(
            f"{field}.type must be one of {', '.join(_KINDS)}", param=f"{field}.type"
        )
    known = {item.name: item for item in fields(kind)}
    unknown = next((key for key in value if key != "type" and key not in known), None)
    if unknown is not None:
        raise InvalidError(f"{field} has an unknown field", param=field)
    given = {key: item for key, item in value.items() if key != "type"}
    for key, item in known.items():
        wanted = _TYPES.get(key, str)
        if key not in given:
            if isinstance(item.default, wanted):
                continue
            raise InvalidError(f"{field}.{key} is missing", param=f"{field}.{key}")
        if type(given[key]) is not wanted or (wanted is int and given[key] < 0):
            raise InvalidError(f"{field}.{key} must be {_NAMES[wanted]}", param=f"{field}.{key}")
    return kind(**given)


def parts_from_client(value: object, *, field: str = "parts") -> tuple[Part, ...]:
    """`parts_from_json`, and the bounds of `parts_check`."""
    if isinstance(value, list) and len(value) > MAX_PARTS:
        raise InvalidError(f"{field} must have at most {MAX_PARTS} items", param=field)
    parts = parts_from_json(value, field=field)
    parts_check(parts, field=field)
    return parts


def parts_check(parts: Sequence[Part], *, field: str = "parts") -> None:
    """Hold a person's message to its bounds.

    Raises:
        InvalidError: empty, too many parts, too long, a kind that only models and tools make, or
            characters that no database and no tokenizer takes.
    """
    if len(parts) > MAX_PARTS:
        raise InvalidError(f"{field} must have at most {MAX_PARTS} items", param=field)
    total = 0
    for index, part in enumerate(parts):
        name = f"{field}[{index}]"
        if not isinstance(part, TextPart | AttachmentPart):
            raise InvalidError(
                f"{name}.type must be text or attachment in a person's message",
                param=f"{name}.type",
            )
        for item in fields(part):
            text = getattr(part, item.name)
            if isinstance(text, str) and not _is_clean(text):
                raise InvalidError(
                    f"{name}.{item.name} holds NUL or half characters", param=f"{name}.{item.name}"
                )
        if isinstance(part, TextPart):
            total += len(part.text)
            if total > MAX_TEXT_CHARS:
                raise InvalidError(
                    f"the text of {field} must have at most {MAX_TEXT_CHARS} characters",
                    param=f"{name}.text",
                )
    has_attachment = any(isinstance(part, AttachmentPart) for part in parts)
    if not has_attachment and not text_of(parts).strip():
        raise InvalidError(f"{field} must hold some text", param=field)


def _is_clean(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def text_of(parts: Sequence[Part]) -> str:
    """All visible text; separate text parts are joined by a blank line."""
    return TEXT_JOIN.join(part.text for part in parts if isinstance(part, TextPart))


def reasoning_of(parts: Sequence[Part]) -> str:
    """All reasoning, joined likewise."""
    return TEXT_JOIN.join(part.text for part in parts if isinstance(part, ReasoningPart))


def parts_from_runs(runs: Sequence[tuple[str, str]]) -> tuple[Part, ...]:
    """A generation's (kind, text) runs as parts; nothing of them is ever lost.

    A tool call that isn't the JSON object {id, name, arguments} stays as text, and so does one
    that says that it is broken: no template and no server takes it back.
    """
    return tuple(_part_from_run(kind, text) for kind, text in runs if text)


def _part_from_run(kind: str, text: str) -> Part:
    if kind == "reasoning":
        return ReasoningPart(text)
    if kind == "tool_call":
        try:
            call = json.loads(text)
            if call.get("broken"):
                return TextPart(text)
            return ToolCallPart(str(call["id"]), str(call["name"]), str(call["arguments"]))
        except (ValueError, TypeError, KeyError, AttributeError):
            return TextPart(text)
    return TextPart(text)
