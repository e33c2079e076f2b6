"""Requests and replies in no family's words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

End: TypeAlias = Literal["stop", "length", "tool_calls"]
ENDS: Final[dict[str, End]] = {"stop": "stop", "length": "length", "tool_calls": "tool_calls"}
PATH: Final = re.compile(r"([a-z_]+[\w.\[\]$-]*): ")


@dataclass(frozen=True)
class Tool:
    """A function that may be called."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False


@dataclass(frozen=True)
class Ask:
    """What is asked. `messages`: as OpenAI's chats have them, instead of `text`; None elsewhere:
    nothing is said of it. `choice`: "required", or the name of a tool."""

    text: str = "Hello"
    messages: Sequence[Mapping[str, Any]] | None = None
    length: int | None = None
    stop: Sequence[str] | None = None
    schema: Mapping[str, Any] | None = None
    tools: Sequence[Tool] | None = None
    choice: str | None = None


@dataclass(frozen=True)
class Reply:
    """What an answer says. `calls`: names and arguments. `stop`: the string that ended it, where
    the family tells; `cached`: of the prompt's tokens, likewise."""

    text: str
    end: End
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    stop: str | None = None
    cached: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Refusal:
    """An error. `kind`: its type, "" where the family has none; `param`: the field's path; `code`:
    the status, where the family tells it beside the message."""

    message: str
    kind: str = ""
    param: str | None = None
    code: int | None = None


@dataclass(frozen=True)
class Stream:
    """A stream as it came: its objects, the text that they say, and how it ended, which is None
    where it broke off."""

    data: Sequence[Mapping[str, Any]]
    text: str
    reply: Reply | None = None
    error: Refusal | None = None


def field_in(message: str) -> str | None:
    """The path in front of a message, where families have no other place for it."""
    found = PATH.match(message)
    return None if found is None else found[1]


def put(body: dict[str, Any], path: str, value: Any) -> None:
    """Set the field at a path with dots."""
    *parents, last = path.split(".")
    for name in parents:
        body = body.setdefault(name, {})
    body[last] = value
