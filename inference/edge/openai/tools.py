"""`tools`, `tool_choice`, `parallel_tool_calls` and `reasoning_format` of a chat."""

from __future__ import annotations

import json
import re
from typing import Any

from inference.edge.openai.schemas import ChatCompletionIn
from inference.protocol.requests import AnswerParams
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

MAX_TOOLS = 128
MAX_TOOLS_CHARS = 512 * 1024  # of JSON, all together
MAX_NAME_CHARS = 128
# What no family of models could write as a name, or nobody could tell from what stands around it.
NAME = re.compile(r"""[^\s\x00-\x1f\x7f<>\[\]{}()"'`\\,;=:]+""")
CHOICES = ("auto", "none", "required")
# llama-server's names; "auto" and both "deepseek" put thoughts into `reasoning_content`.
REASONING_FORMATS = ("none", "auto", "deepseek", "deepseek-legacy")


def tools_of(body: ChatCompletionIn) -> str | None:
    """The definitions of the tools as the template gets them, JSON text; None: there are none, or
    none may be called.

    Raises:
        InvalidError: naming the field.
    """
    tools = body.tools
    if tools is None or tools == []:
        return None
    if not isinstance(tools, list):
        raise InvalidError("must be a list", param="tools")
    if len(tools) > MAX_TOOLS:
        raise InvalidError(
            f"has {len(tools)} tools, at most {MAX_TOOLS} are allowed", param="tools"
        )
    names: set[str] = set()
    definitions = []
    for index, tool in enumerate(tools):
        definitions.append(_tool(tool, f"tools[{index}]"))
        name = definitions[-1]["function"]["name"]
        if name in names:
            raise InvalidError(
                "another tool has that name already", param=f"tools[{index}].function.name"
            )
        names.add(name)
    try:
        text = valid_text(json.dumps(definitions, ensure_ascii=False, allow_nan=False))
    except ValueError:
        raise InvalidError("numbers must be finite", param="tools") from None
    if len(text) > MAX_TOOLS_CHARS:
        raise InvalidError(
            f"has {len(text)} characters, at most {MAX_TOOLS_CHARS} are allowed", param="tools"
        )
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
    names = [tool["function"]["name"] for tool in json.loads(tools_json or "[]")]
    is_forced, name = _choice(body.tool_choice, names)
    return AnswerParams(
        splits_reasoning=body.reasoning_format != "none",
        tool_choice="required" if is_forced else "auto",
        tool_name=name,
        parallel_tool_calls=body.parallel_tool_calls is not False,
    )


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
    """One definition, with what templates read of it and nothing else."""
    if not isinstance(tool, dict):
        raise InvalidError("must be an object", param=path)
    if tool.get("type", "function") != "function":
        raise InvalidError('must be "function": other tools aren\'t run here', param=f"{path}.type")
    function = tool.get("function")
    if not isinstance(function, dict):
        raise InvalidError("must be an object", param=f"{path}.function")
    path = f"{path}.function"
    name = function.get("name")
    if not isinstance(name, str) or len(name) > MAX_NAME_CHARS or not NAME.fullmatch(name):
        raise InvalidError(
            f"must be text of 1 to {MAX_NAME_CHARS} characters without white space, quotes, "
            "brackets and control characters",
            param=f"{path}.name",
        )
    out: dict[str, Any] = {"name": name}
    description, parameters = function.get("description"), function.get("parameters")
    if description is not None:
        if not isinstance(description, str):
            raise InvalidError("must be text", param=f"{path}.description")
        out["description"] = description
    if parameters is not None and not isinstance(parameters, dict):
        raise InvalidError("must be an object, a JSON schema", param=f"{path}.parameters")
    out["parameters"] = _parameters(parameters or {}, f"{path}.parameters")
    return {"type": "function", "function": out}


def _parameters(given: dict[str, Any], path: str) -> dict[str, Any]:
    """Most templates read the properties without a look."""
    out = {"type": "object", "properties": {}, **given}
    if out["properties"] is None:
        out["properties"] = {}
    if not isinstance(out["properties"], dict):
        raise InvalidError("must be an object of schemas", param=f"{path}.properties")
    return out
