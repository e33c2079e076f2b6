"""`tools` of a response as the functions that the model sees, and as the response repeats them.
What its client runs is offered; tools that a server would have to run are left out with a note."""

from __future__ import annotations

from typing import Any, Final

from inference.edge.responses.calls import ToolRef, text_schema
from inference.edge.tools import MAX_TOOLS, tool_definition, tool_list, tool_name
from llamaweb.lib.errors import InvalidError

MAX_KIND_CHARS: Final = 64  # of a type in a note
SYNTAXES: Final = ("lark", "regex")


class Definitions:
    """`by_path`: the functions by their paths in the request. `refs`: whose they are, by the names
    that the model sees. `notes`: what was left out, in words for the client."""

    def __init__(self) -> None:
        self.by_path: dict[str, dict[str, Any]] = {}
        self.refs: dict[str, ToolRef] = {}
        self.shown: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def take(self, tools: Any) -> None:
        """All of the field `tools`.

        Raises:
            InvalidError: naming the field.
        """
        for index, tool in enumerate(tool_list(tools)):
            path = f"tools[{index}]"
            is_group = kind_of(tool, path) == "namespace"
            self.shown += self._group(tool, path) if is_group else self._tool(tool, path)
        if len(self.by_path) > MAX_TOOLS:
            raise InvalidError(
                f"has {len(self.by_path)} tools with those in namespaces, at most {MAX_TOOLS} are "
                "allowed",
                param="tools",
            )

    def _group(self, group: dict[str, Any], path: str) -> list[dict[str, Any]]:
        """The tools of a namespace, as the response repeats it."""
        name, description = tool_name(group, path), group.get("description", "")
        if not isinstance(description or "", str):
            raise InvalidError("must be text", param=f"{path}.description")
        tools = group.get("tools")
        if not isinstance(tools, list):
            raise InvalidError("must be a list of tools", param=f"{path}.tools")
        shown: list[dict[str, Any]] = []
        for index, tool in enumerate(tools):
            shown += self._tool(tool, f"{path}.tools[{index}]", name)
        told = {"name": name, "description": description or "", "tools": shown}
        return [{"type": "namespace", **told}]

    def _tool(self, tool: Any, path: str, namespace: str = "") -> list[dict[str, Any]]:
        """A tool, as the response repeats it; nothing of one that is left out."""
        kind = kind_of(tool, path)
        if kind == "function":
            definition = tool_definition(tool, schema="parameters", path=path)
            shown = _shown_function(tool, definition["function"], path)
        elif kind == "custom":
            form = _form(tool.get("format"), f"{path}.format")
            fields = {**tool, "parameters": text_schema(_words(form))}
            definition = tool_definition(fields, schema="parameters", path=path)
            shown = _shown_custom(definition["function"], form)
        else:
            self.notes.append(f"{path}: {kind} isn't run by this server and was left out")
            return []
        function = definition["function"]
        ref = ToolRef(function["name"], namespace, kind == "custom")
        function["name"] = ref.offered
        self.by_path[path] = definition
        self.refs[ref.offered] = ref
        return [shown]


def kind_of(tool: Any, path: str) -> str:
    """The type of a tool, in words that can be shown.

    Raises:
        InvalidError: naming the field.
    """
    if not isinstance(tool, dict):
        raise InvalidError("must be an object", param=path)
    kind = tool.get("type")
    if not isinstance(kind, str) or not kind:
        raise InvalidError("must be text", param=f"{path}.type")
    return kind[:MAX_KIND_CHARS] if kind.isprintable() else "a tool of an unknown type"


def _form(given: Any, path: str) -> dict[str, Any]:
    """What the text of a custom tool has to look like: a text, or one of a grammar."""
    if given is None:
        return {"type": "text"}
    if not isinstance(given, dict):
        raise InvalidError("must be an object with a 'type'", param=path)
    if given.get("type") == "text":
        return {"type": "text"}
    if given.get("type") != "grammar":
        raise InvalidError("must be text or grammar", param=f"{path}.type")
    if given.get("syntax") not in SYNTAXES:
        raise InvalidError(f"must be one of {', '.join(SYNTAXES)}", param=f"{path}.syntax")
    if not isinstance(given.get("definition"), str):
        raise InvalidError("must be text", param=f"{path}.definition")
    return {"type": "grammar", "syntax": given["syntax"], "definition": given["definition"]}


def _words(form: dict[str, Any]) -> str:
    """What the model hears of a form: it isn't held to it."""
    if form["type"] == "text":
        return ""
    return f"Text of this {form['syntax']} grammar:\n{form['definition']}"


def _shown_custom(function: dict[str, Any], form: dict[str, Any]) -> dict[str, Any]:
    told = {"name": function["name"], "description": function.get("description")}
    return {"type": "custom", **told, "format": form}


def _shown_function(tool: dict[str, Any], function: dict[str, Any], path: str) -> dict[str, Any]:
    strict = tool.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise InvalidError("must be true or false", param=f"{path}.strict")
    given = {"description": None, **function, "parameters": tool.get("parameters")}
    return {"type": "function", **given, "strict": strict}
