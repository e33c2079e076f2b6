"""`tools`, `tool_choice` and `parallel_tool_calls` of a chat, and how its reasoning is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inference.edge.openai.generation import reasoning_budget_of
from inference.edge.openai.schemas import ChatCompletionIn
from inference.edge.tools import (
    allowed_tools,
    definitions_json,
    refuse_none,
    tool_definition,
    tool_list,
    tool_names,
)
from inference.protocol.requests import AnswerParams
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

CHOICES = ("auto", "none", "required")
# llama-server's names; "auto" and both "deepseek" put thoughts into `reasoning_content`.
REASONING_FORMATS = ("none", "auto", "deepseek", "deepseek-legacy")


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that may be called, as the template gets them (None: none). `places`: where their
    schemas are, if some of the request's aren't among them."""

    tools_json: str | None
    places: tuple[str, ...] = ()


def offer_of(body: ChatCompletionIn) -> Offer:
    """The request's tools.

    Raises:
        InvalidError: naming the field.
    """
    paths = {f"tools[{index}]": tool for index, tool in enumerate(tool_list(body.tools))}
    offered = {f"{path}.function": _tool(tool, path) for path, tool in paths.items()}
    text = definitions_json(offered)
    if body.tool_choice == "none":
        return Offer(None)
    if not _is_of_allowed(body.tool_choice):
        return Offer(text)
    _, allowed = _allowed(body.tool_choice, tool_names(text))
    kept = {path: tool for path, tool in offered.items() if tool["function"]["name"] in allowed}
    return Offer(definitions_json(kept), tuple(f"{path}.parameters" for path in kept))


def answer_of(body: ChatCompletionIn, tools_json: str | None) -> AnswerParams:
    """How the answer is taken apart, and whether it has to be a call.

    Raises:
        InvalidError: naming the field.
    """
    if body.reasoning_format is not None and body.reasoning_format not in REASONING_FORMATS:
        raise InvalidError(
            f"must be one of {', '.join(REASONING_FORMATS)}", param="reasoning_format"
        )
    is_forced, name = _choice(body.tool_choice, tool_names(tools_json))
    return AnswerParams(
        splits_reasoning=body.reasoning_format != "none",
        tool_choice="required" if is_forced else "auto",
        tool_name=name,
        parallel_tool_calls=body.parallel_tool_calls is not False,
        reasoning_budget=reasoning_budget_of(body),
        reasoning_message=valid_text(body.reasoning_budget_message or ""),
        reasoning_control=body.reasoning_control,
    )


def _choice(choice: Any, names: list[str]) -> tuple[bool, str]:
    """Whether a call has to be made, and which one, "" for any."""
    if choice is None or choice in ("auto", "none"):
        return False, ""
    if choice == "required":
        refuse_none(names)
        return True, ""
    if isinstance(choice, str):
        raise InvalidError(
            f"must be one of {', '.join(CHOICES)}, or name a function", param="tool_choice"
        )
    if _is_of_allowed(choice):
        return _allowed(choice, names)[0], ""
    function = choice.get("function") if isinstance(choice, dict) else None
    if not isinstance(function, dict) or choice.get("type") != "function":
        raise InvalidError(
            "must be an object with 'type' \"function\" and a 'function'", param="tool_choice"
        )
    return True, _name(function, names, "tool_choice.function")


def _is_of_allowed(choice: Any) -> bool:
    return isinstance(choice, dict) and choice.get("type") == "allowed_tools"


def _allowed(choice: dict[str, Any], names: list[str]) -> tuple[bool, frozenset[str]]:
    """Whether one of the tools that it names has to be called, and the names."""
    path, given = "tool_choice.allowed_tools", choice.get("allowed_tools")
    if not isinstance(given, dict):
        raise InvalidError("must be an object", param=path)
    return allowed_tools(
        given, path, lambda tool, at: [_name(_function(tool, at), names, f"{at}.function")]
    )


def _name(function: dict[str, Any], names: list[str], path: str) -> str:
    name = function.get("name")
    if not isinstance(name, str) or name not in names:
        raise InvalidError("isn't the name of one of the tools", param=f"{path}.name")
    return name


def _tool(tool: Any, path: str) -> dict[str, Any]:
    return tool_definition(_function(tool, path), schema="parameters", path=f"{path}.function")


def _function(tool: Any, path: str) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise InvalidError("must be an object", param=path)
    if tool.get("type", "function") != "function":
        raise InvalidError('must be "function": other tools aren\'t run here', param=f"{path}.type")
    function = tool.get("function")
    if not isinstance(function, dict):
        raise InvalidError("must be an object", param=f"{path}.function")
    return function
