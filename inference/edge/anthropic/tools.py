"""`tools` and `tool_choice`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from inference.edge.anthropic.schemas import PromptIn
from inference.edge.tools import definitions_json, tool_definition, tool_list, tool_names
from inference.protocol.requests import AnswerParams
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

CHOICES = ("auto", "any", "tool", "none")
MAX_KIND_CHARS = 64  # of a type in a warning
# Tools without a schema of their own, which Anthropic's models and servers know: "bash_20250124".
FOREIGN = re.compile(r"[a-z][a-z0-9_]*_\d{8}|mcp_toolset")


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that may be called, as the template gets them (None: none), what was left out of
    the request's, in words, and where the schemas of the others are."""

    tools_json: str | None = None
    warnings: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


def offer_of(body: PromptIn) -> Offer:
    """The request's tools.

    Raises:
        InvalidError: naming the field.
    """
    mine: dict[str, dict[str, Any]] = {}
    warnings: list[str] = []
    for index, tool in enumerate(tool_list(body.tools)):
        path = f"tools[{index}]"
        kind = _kind(tool, path)
        if kind == "custom":
            mine[path] = tool_definition(tool, schema="input_schema", path=path)
        else:
            warnings.append(f"{path}: {kind} isn't run here and was left out")
    text = definitions_json(mine)
    places = tuple(f"{path}.input_schema" for path in mine)
    is_none = _choice_kind(body.tool_choice) == "none"
    return Offer(None if is_none else text, tuple(warnings), places)


def answer_of(body: PromptIn, offer: Offer) -> AnswerParams:
    """Whether the answer has to be a call, and of how many.

    Raises:
        InvalidError: naming the field.
    """
    choice = body.tool_choice or {}
    kind = _choice_kind(body.tool_choice)
    is_alone = choice.get("disable_parallel_tool_use") or False
    if not isinstance(is_alone, bool):
        raise InvalidError("must be true or false", param="tool_choice.disable_parallel_tool_use")
    names = tool_names(offer.tools_json)
    name: Any = ""
    if kind == "any" and not names:
        raise InvalidError("'any' needs at least one tool that can be called", param="tool_choice")
    if kind == "tool":
        name = choice.get("name")
        if not isinstance(name, str) or name not in names:
            raise InvalidError(
                "isn't the name of one of the tools that can be called", param="tool_choice.name"
            )
    return AnswerParams(
        tool_choice="required" if kind in ("any", "tool") else "auto",
        tool_name=name,
        parallel_tool_calls=not is_alone,
    )


def _kind(tool: Any, path: str) -> str:
    """The type of a tool that is left out, or "custom" of one that isn't."""
    if not isinstance(tool, dict):
        raise InvalidError("must be an object", param=path)
    kind = tool.get("type")
    if kind is None or kind == "custom":
        if tool.get("input_schema") is None:
            raise InvalidError("must be an object, a JSON schema", param=f"{path}.input_schema")
        return "custom"
    if not isinstance(kind, str) or len(kind) > MAX_KIND_CHARS or not FOREIGN.fullmatch(kind):
        raise InvalidError('must be "custom", or a tool of Anthropic\'s', param=f"{path}.type")
    return valid_text(kind)


def _choice_kind(choice: Any) -> str:
    if choice is None:
        return "auto"
    if not isinstance(choice, dict):
        raise InvalidError("must be an object with a 'type'", param="tool_choice")
    kind = choice.get("type")
    if kind not in CHOICES:
        raise InvalidError(f"must be one of {', '.join(CHOICES)}", param="tool_choice.type")
    return str(kind)
