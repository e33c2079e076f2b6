"""`tools` and `tool_choice` of a response: functions are offered, tools that a server would have to
run are left out with a note."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inference.edge.responses.schemas import ResponseIn
from inference.edge.tools import definitions_json, tool_definition, tool_list, tool_names
from inference.protocol.requests import AnswerParams
from llamaweb.lib.errors import InvalidError

CHOICES = ("auto", "none", "required")
MODES = ("auto", "required")


@dataclass(frozen=True, slots=True)
class Offered:
    """`tools_json`: for the template, None without any. `shown`: as the response repeats them.
    `notes`: what was left out, in words for the client."""

    tools_json: str | None
    answer: AnswerParams
    shown: list[dict[str, Any]]
    choice: Any
    notes: list[str]


def offered_of(body: ResponseIn) -> Offered:
    """What the model may call, and what it has to.

    Raises:
        InvalidError: naming the field; a tool has to be called that isn't run here.
    """
    by_path: dict[str, dict[str, Any]] = {}
    shown: list[dict[str, Any]] = []
    notes: list[str] = []
    for index, tool in enumerate(tool_list(body.tools)):
        path = f"tools[{index}]"
        kind = _kind(tool, path)
        if kind == "function":
            by_path[path] = tool_definition(tool, schema="parameters", path=path)
            shown.append(_shown(tool, by_path[path]["function"], path))
        else:
            notes.append(f"{path}: {kind} isn't run by this server and was left out")
    names = tool_names(definitions_json(by_path))
    is_forced, name, allowed = _choice(body.tool_choice, names)
    kept = {p: each for p, each in by_path.items() if each["function"]["name"] in allowed}
    return Offered(
        tools_json=definitions_json(kept),
        answer=AnswerParams(
            tool_choice="required" if is_forced else "auto",
            tool_name=name,
            parallel_tool_calls=body.parallel_tool_calls is not False,
        ),
        shown=shown,
        choice=body.tool_choice or "auto",
        notes=notes,
    )


def _choice(choice: Any, names: list[str]) -> tuple[bool, str, list[str]]:
    """Whether a call has to be made, which one ("" for any), and the tools that are shown."""
    if choice is None or choice == "auto":
        return False, "", names
    if choice == "none":
        return False, "", []
    if choice == "required":
        return True, "", _some(names)
    if isinstance(choice, str) or not isinstance(choice, dict):
        raise InvalidError(
            f"must be one of {', '.join(CHOICES)}, or name a function", param="tool_choice"
        )
    kind = choice.get("type")
    if kind == "function":
        return True, _name(choice.get("name"), names, "tool_choice.name"), names
    if kind == "allowed_tools":
        return _allowed(choice, names)
    if isinstance(kind, str):
        raise InvalidError(
            "must be function or allowed_tools: other tools aren't run here",
            param="tool_choice.type",
        )
    raise InvalidError("must be an object with a 'type'", param="tool_choice")


def _allowed(choice: dict[str, Any], names: list[str]) -> tuple[bool, str, list[str]]:
    mode, tools = choice.get("mode", "auto"), choice.get("tools")
    if mode not in MODES:
        raise InvalidError(f"must be one of {', '.join(MODES)}", param="tool_choice.mode")
    if not isinstance(tools, list):
        raise InvalidError("must be a list of tools", param="tool_choice.tools")
    allowed = []
    for index, tool in enumerate(tools):
        path = f"tool_choice.tools[{index}]"
        if _kind(tool, path) == "function":
            allowed.append(_name(tool.get("name"), names, f"{path}.name"))
    return mode == "required", "", _some(allowed) if mode == "required" else allowed


def _some(names: list[str]) -> list[str]:
    if not names:
        raise InvalidError("'required' needs at least one function", param="tool_choice")
    return names


def _name(name: Any, names: list[str], path: str) -> str:
    if not isinstance(name, str) or name not in names:
        raise InvalidError("isn't the name of one of the tools", param=path)
    return name


def _kind(tool: Any, path: str) -> str:
    if not isinstance(tool, dict):
        raise InvalidError("must be an object", param=path)
    kind = tool.get("type")
    if not isinstance(kind, str) or not kind:
        raise InvalidError("must be text", param=f"{path}.type")
    return kind[:64] if kind.isprintable() else "a tool of an unknown type"


def _shown(tool: dict[str, Any], function: dict[str, Any], path: str) -> dict[str, Any]:
    strict = tool.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise InvalidError("must be true or false", param=f"{path}.strict")
    given = {"description": None, **function, "parameters": tool.get("parameters")}
    return {"type": "function", **given, "strict": strict}
