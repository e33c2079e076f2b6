"""`tools`, `tool_choice` and `parallel_tool_calls` of a chat, and how its reasoning is told."""

from __future__ import annotations

from typing import Any

from inference.edge.openai.schemas import ChatCompletionIn
from inference.edge.tools import definitions_json, tool_definition, tool_list, tool_names
from inference.protocol.requests import AnswerParams
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

CHOICES = ("auto", "none", "required")
# llama-server's names; "auto" and both "deepseek" put thoughts into `reasoning_content`.
REASONING_FORMATS = ("none", "auto", "deepseek", "deepseek-legacy")


def tools_of(body: ChatCompletionIn) -> str | None:
    """The definitions of the tools as the template gets them, JSON text; None: there are none, or
    none may be called.

    Raises:
        InvalidError: naming the field.
    """
    paths = {f"tools[{index}]": tool for index, tool in enumerate(tool_list(body.tools))}
    text = definitions_json({f"{path}.function": _tool(tool, path) for path, tool in paths.items()})
    return None if body.tool_choice == "none" else text


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
        reasoning_budget=_budget(body),
        reasoning_message=valid_text(body.reasoning_budget_message or ""),
        reasoning_control=body.reasoning_control,
    )


def _budget(body: ChatCompletionIn) -> int | None:
    """Tokens that reasoning may have; None: any number."""
    given = (body.reasoning_budget_tokens, body.thinking_budget_tokens)
    budget = next((value for value in given if value is not None), -1)
    return None if budget < 0 else budget


def _choice(choice: Any, names: list[str]) -> tuple[bool, str]:
    """Whether a call has to be made, and which one, "" for any."""
    if choice is None or choice in ("auto", "none"):
        return False, ""
    if choice == "required":
        if not names:
            raise InvalidError("'required' needs at least one tool", param="tool_choice")
        return True, ""
    if isinstance(choice, str):
        raise InvalidError(
            f"must be one of {', '.join(CHOICES)}, or name a function", param="tool_choice"
        )
    function = choice.get("function") if isinstance(choice, dict) else None
    if not isinstance(function, dict) or choice.get("type") != "function":
        raise InvalidError(
            "must be an object with 'type' \"function\" and a 'function'", param="tool_choice"
        )
    name = function.get("name")
    if not isinstance(name, str) or name not in names:
        raise InvalidError("isn't the name of one of the tools", param="tool_choice.function.name")
    return True, name


def _tool(tool: Any, path: str) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise InvalidError("must be an object", param=path)
    if tool.get("type", "function") != "function":
        raise InvalidError('must be "function": other tools aren\'t run here', param=f"{path}.type")
    function = tool.get("function")
    if not isinstance(function, dict):
        raise InvalidError("must be an object", param=f"{path}.function")
    return tool_definition(function, schema="parameters", path=f"{path}.function")
