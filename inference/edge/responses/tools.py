"""`tools` and `tool_choice` of a response, and how long it may think."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from inference.edge.openai.generation import reasoning_budget_of
from inference.edge.responses.calls import ToolRef
from inference.edge.responses.definitions import Definitions, kind_of
from inference.edge.responses.schemas import ResponseIn
from inference.edge.tools import allowed_tools, definitions_json, refuse_none
from inference.protocol.requests import AnswerParams
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

CHOICES = ("auto", "none", "required")
NAMED = ("function", "custom")  # types of tools that clients run, chosen by their names


@dataclass(frozen=True, slots=True)
class Offered:
    """`tools_json`: for the template, None without any. `refs`: those that aren't plain functions,
    by the names that the model sees. `shown`: as the response repeats them. `notes`: what was left
    out, in words for the client. `places`: where the schemas of `tools_json` are."""

    tools_json: str | None
    answer: AnswerParams
    refs: dict[str, ToolRef]
    shown: list[dict[str, Any]]
    choice: Any
    notes: list[str]
    places: tuple[str, ...]


def offered_of(body: ResponseIn) -> Offered:
    """What the model may call, and what it has to.

    Raises:
        InvalidError: naming the field; a tool has to be called that isn't run here.
    """
    tools = Definitions()
    tools.take(body.tools)
    all_json = definitions_json(tools.by_path)  # also those that aren't shown have to be right
    is_forced, name, allowed = _choice(body.tool_choice, tools.refs)
    kept = {p: each for p, each in tools.by_path.items() if each["function"]["name"] in allowed}
    return Offered(
        tools_json=all_json if len(kept) == len(tools.by_path) else definitions_json(kept),
        answer=AnswerParams(
            tool_choice="required" if is_forced else "auto",
            tool_name=name,
            parallel_tool_calls=body.parallel_tool_calls is not False,
            reasoning_budget=reasoning_budget_of(body),
            reasoning_message=valid_text(body.reasoning_budget_message or ""),
            reasoning_control=body.reasoning_control,
        ),
        refs={name: ref for name, ref in tools.refs.items() if ref != ToolRef(name)},
        shown=tools.shown,
        choice=body.tool_choice or "auto",
        notes=tools.notes,
        places=tuple(f"{path}.parameters" for path in kept),
    )


def _choice(choice: Any, refs: dict[str, ToolRef]) -> tuple[bool, str, Collection[str]]:
    """Whether a call has to be made, which one ("" for any), and the tools that are shown."""
    if choice is None or choice == "auto":
        return False, "", refs
    if choice == "none":
        return False, "", ()
    if choice == "required":
        refuse_none(refs)
        return True, "", refs
    if not isinstance(choice, dict):
        raise InvalidError(
            f"must be one of {', '.join(CHOICES)}, or name a function", param="tool_choice"
        )
    kind = choice.get("type")
    if kind in NAMED:
        return True, _name(choice, refs, "tool_choice"), refs
    if kind == "allowed_tools":
        is_forced, allowed = allowed_tools(
            choice, "tool_choice", lambda tool, path: _meant(tool, refs, path)
        )
        return is_forced, "", allowed
    if isinstance(kind, str):
        raise InvalidError(
            f"must be {', '.join(NAMED)} or allowed_tools: other tools aren't run here",
            param="tool_choice.type",
        )
    raise InvalidError("must be an object with a 'type'", param="tool_choice")


def _meant(tool: Any, refs: dict[str, ToolRef], path: str) -> Collection[str]:
    """The tools that an entry of those allowed means: one, all of a namespace, or none that a
    client runs."""
    kind = kind_of(tool, path)
    if kind in NAMED:
        return [_name(tool, refs, path)]
    if kind == "namespace":
        return [name for name, ref in refs.items() if ref.namespace == tool.get("name")]
    return []


def _name(choice: dict[str, Any], refs: dict[str, ToolRef], path: str) -> str:
    """The model's name of a tool that is chosen in its client's terms."""
    name, namespace = choice.get("name"), choice.get("namespace") or ""
    if not isinstance(namespace, str):
        raise InvalidError("must be text", param=f"{path}.namespace")
    is_custom = choice["type"] == "custom"
    ref = ToolRef(name, namespace, is_custom) if isinstance(name, str) else None
    if ref is None or refs.get(ref.offered) != ref:
        raise InvalidError("isn't the name of one of the tools", param=f"{path}.name")
    return ref.offered
