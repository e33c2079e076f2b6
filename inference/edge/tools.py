"""Definitions of tools as the engine gets them, whatever a family calls their fields, and which of
them may be called."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

MAX_TOOLS = 1024
MAX_TOOLS_CHARS = 512 * 1024  # of JSON, all together
MAX_NAME_CHARS = 128
MODES = ("auto", "required")
# What no family of models could write as a name, or nobody could tell from what stands around it.
NAME = re.compile(r"""[^\s\x00-\x1f\x7f<>\[\]{}()"'`\\,;=:]+""")


def tool_list(tools: Any, param: str = "tools") -> list[Any]:
    """The field `tools`, which is at `param`, or an empty list.

    Raises:
        InvalidError: no list, or a long one.
    """
    if tools is None:
        return []
    if not isinstance(tools, list):
        raise InvalidError("must be a list", param=param)
    if len(tools) > MAX_TOOLS:
        raise InvalidError(f"has {len(tools)} tools, at most {MAX_TOOLS} are allowed", param=param)
    return tools


def tool_name(fields: Mapping[str, Any], path: str) -> str:
    """The field `name` of what stands at `path`.

    Raises:
        InvalidError: nothing that a model could write.
    """
    name = fields.get("name")
    if not isinstance(name, str) or len(name) > MAX_NAME_CHARS or not NAME.fullmatch(name):
        raise InvalidError(
            f"must be text of 1 to {MAX_NAME_CHARS} characters without white space, quotes, "
            "brackets and control characters",
            param=f"{path}.name",
        )
    return name


def tool_definition(fields: Mapping[str, Any], *, schema: str, path: str) -> dict[str, Any]:
    """One function with what templates and grammars read of it and nothing else: `name`,
    `description`, the JSON schema in the field called `schema` of `fields`, which stand at `path`,
    and `strict` if it is true.

    Raises:
        InvalidError: naming the field.
    """
    out: dict[str, Any] = {"name": tool_name(fields, path)}
    description, parameters = fields.get("description"), fields.get(schema)
    if description is not None:
        if not isinstance(description, str):
            raise InvalidError("must be text", param=f"{path}.description")
        out["description"] = description
    if parameters is not None and not isinstance(parameters, dict):
        raise InvalidError("must be an object, a JSON schema", param=f"{path}.{schema}")
    out["parameters"] = _parameters(parameters or {}, f"{path}.{schema}")
    if fields.get("strict") is True:
        out["strict"] = True
    return {"type": "function", "function": out}


def definitions_json(by_path: Mapping[str, dict[str, Any]]) -> str | None:
    """JSON text of the definitions, which stand at the paths in the request; None without any.

    Raises:
        InvalidError: two have the same name, they are too long together, or hold no JSON numbers.
    """
    if not by_path:
        return None
    names: set[str] = set()
    for path, definition in by_path.items():
        name = definition["function"]["name"]
        if name in names:
            raise InvalidError("another tool has that name already", param=f"{path}.name")
        names.add(name)
    try:
        text = json.dumps(list(by_path.values()), ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise InvalidError("numbers must be finite", param="tools") from None
    if len(text) > MAX_TOOLS_CHARS:
        raise InvalidError(
            f"has {len(text)} characters, at most {MAX_TOOLS_CHARS} are allowed", param="tools"
        )
    return valid_text(text)


def tool_names(tools_json: str | None) -> list[str]:
    """The names in `definitions_json`'s text."""
    return [tool["function"]["name"] for tool in json.loads(tools_json or "[]")]


def allowed_tools(
    given: Mapping[str, Any], path: str, names_of: Callable[[Any, str], Collection[str]]
) -> tuple[bool, frozenset[str]]:
    """Whether one of the tools that may be called has to be, and their names. `given`, at `path`:
    `mode` and `tools`; `names_of`: which tools an entry means, at its path.

    Raises:
        InvalidError: naming the field.
    """
    mode, tools = given.get("mode", "auto"), given.get("tools")
    if mode not in MODES:
        raise InvalidError(f"must be one of {', '.join(MODES)}", param=f"{path}.mode")
    if tools is None:
        raise InvalidError("must be a list of tools", param=f"{path}.tools")
    listed = enumerate(tool_list(tools, f"{path}.tools"))
    names = frozenset(
        name for index, tool in listed for name in names_of(tool, f"{path}.tools[{index}]")
    )
    if mode == "required":
        refuse_none(names)
    return mode == "required", names


def refuse_none(names: Collection[str]) -> None:
    """Raises InvalidError: a tool has to be called, and there is none."""
    if not names:
        raise InvalidError("'required' needs at least one tool", param="tool_choice")


def _parameters(given: dict[str, Any], path: str) -> dict[str, Any]:
    """Most templates read the properties without a look."""
    out = {"type": "object", "properties": {}, **given}
    if out["properties"] is None:
        out["properties"] = {}
    if not isinstance(out["properties"], dict):
        raise InvalidError("must be an object of schemas", param=f"{path}.properties")
    return out
