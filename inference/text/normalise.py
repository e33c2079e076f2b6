"""One normaliser in front of every chat template and every API family.

A template may insist on strict turns, know no system role, or ignore tool calls; people send any
order all the same. The rules, applied in this order, each only where the template needs it:

1. Tool history. For a template without tool calls, an assistant's calls are written at the end of
   its text as `<tool_call>` blocks, and results become user text in `<tool_response>` blocks. One
   that takes ids of nine letters and digits only gets such.
2. Tools. For a template that doesn't show them, their definitions become a system message behind
   those at the start.
3. System messages at the start become one, joined by a blank line.
4. A later system message stays where it is; for a template that can't have it there, it becomes
   user text under the line `System message:`, in the same place.
5. A template without a system role gets the first system text in front of the first user text.
6. Messages of one role in a row are joined by a blank line if the template refuses them.
7. A chat that starts with the assistant gets an empty user message in front if it must.
8. An empty chat is one empty user message.

No rule changes anything before the place it applies to, so a chat that grows keeps its prompt's
prefix, byte for byte, and with it its place in the prompt cache. The roles "developer" and
"function" are translated at the edges ("system", "tool"); absent and null content are "".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from inference.protocol.requests import Message, ToolCall
from inference.text.capabilities import SHORT_ID_CHARS, TemplateCapabilities
from inference.text.depth import is_deep
from llamaweb.lib.errors import InvalidError

SEPARATOR = "\n\n"
LATER_SYSTEM_HEAD = "System message:\n"
TOOLS_HEAD = "These functions can be called:"
TOOLS_TAIL = """\
A call is written in the answer like this, one for each function that is needed:
<tool_call>
{"name": "function's name", "arguments": {"parameter's name": "its value"}}
</tool_call>
What a function returns follows in <tool_response> blocks."""


def normalise(
    messages: Sequence[Message], can: TemplateCapabilities, tools: Sequence[Any] = ()
) -> list[Message]:
    """The same chat in a shape that a template with capabilities `can` takes; `tools`: definitions
    of those that the answer may call.

    Raises:
        InvalidError: a message carries media; text templates can't show them.
    """
    for index, message in enumerate(messages):
        if message.media:
            raise InvalidError("this model takes text only", param=f"messages[{index}].content")
    out = list(messages)
    if can.tool_calls is None:
        out = [_calls_as_text(message) for message in out]
    if tools and not can.tools:
        out.insert(_num_leading(out), Message("system", _tools_as_text(tools)))
    out = _place_system(out, can)
    if not can.role_runs:
        out = _join_runs(out)
    if not out or (not can.assistant_first and _first_role(out) == "assistant"):
        out.insert(1 if out and out[0].role == "system" else 0, Message("user"))
    return out


def template_messages(
    messages: Iterable[Message], can: TemplateCapabilities
) -> list[dict[str, Any]]:
    """The messages as the template's variable, in Hugging Face's field names."""
    names: dict[str, str] = {}
    return [_template_message(message, can, names) for message in messages]


def _template_message(
    message: Message, can: TemplateCapabilities, names: dict[str, str]
) -> dict[str, Any]:
    content: Any = message.content
    if can.typed_content:
        content = [{"type": "text", "text": message.content}]
    out: dict[str, Any] = {"role": message.role, "content": content}
    if message.reasoning:
        out["reasoning_content"] = message.reasoning
    if message.tool_calls:
        names.update((call.id, call.name) for call in message.tool_calls)
        out["tool_calls"] = [_template_call(call, can) for call in message.tool_calls]
    if message.tool_call_id is not None:
        out["tool_call_id"] = _call_id(message.tool_call_id, can)
    name = message.name or names.get(message.tool_call_id or "")
    if name:
        out["name"] = name
    return out


def _template_call(call: ToolCall, can: TemplateCapabilities) -> dict[str, Any]:
    arguments: Any = call.arguments
    if can.tool_calls == "object":
        arguments = _parsed(call.arguments)
    function = {"name": call.name, "arguments": arguments}
    return {"id": _call_id(call.id, can), "type": "function", "function": function}


def _call_id(call_id: str, can: TemplateCapabilities) -> str:
    if not can.short_call_ids or (len(call_id) == SHORT_ID_CHARS and call_id.isalnum()):
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:SHORT_ID_CHARS]


def _parsed(arguments: str) -> Any:
    """The value in the JSON text, or the text itself: a model may have written anything."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    return arguments if is_deep(value) else value


def _first_role(messages: Sequence[Message]) -> str:
    return next((m.role for m in messages if m.role != "system"), "")


def _tools_as_text(tools: Sequence[Any]) -> str:
    definitions = (json.dumps(tool, ensure_ascii=False) for tool in tools)
    return "\n".join((TOOLS_HEAD, *definitions, TOOLS_TAIL))


def _calls_as_text(message: Message) -> Message:
    if message.role == "tool":
        return Message("user", f"<tool_response>\n{message.content}\n</tool_response>")
    if not message.tool_calls:
        return message
    calls = (
        "<tool_call>\n"
        + json.dumps({"name": c.name, "arguments": _parsed(c.arguments)}, ensure_ascii=False)
        + "\n</tool_call>"
        for c in message.tool_calls
    )
    return replace(message, content=_joined([message.content, *calls]), tool_calls=())


def _place_system(messages: list[Message], can: TemplateCapabilities) -> list[Message]:
    num_leading = _num_leading(messages)
    leading, rest = messages[:num_leading], messages[num_leading:]
    if not can.later_system:
        rest = [_system_as_user(m) if m.role == "system" else m for m in rest]
    if not leading:
        return rest
    text = _joined(m.content for m in leading)
    if can.system:
        return [Message("system", text), *rest]
    if rest and rest[0].role == "user":
        return [replace(rest[0], content=_joined([text, rest[0].content])), *rest[1:]]
    return [Message("user", text), *rest]


def _num_leading(messages: Sequence[Message]) -> int:
    """How many system messages stand at the start."""
    return next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))


def _system_as_user(message: Message) -> Message:
    return Message("user", LATER_SYSTEM_HEAD + message.content)


def _join_runs(messages: Iterable[Message]) -> list[Message]:
    out: list[Message] = []
    for message in messages:
        if not out or out[-1].role != message.role or message.role == "tool":
            out.append(message)
            continue
        last = out[-1]
        out[-1] = replace(
            last,
            content=_joined([last.content, message.content]),
            reasoning=_joined([last.reasoning, message.reasoning]),
            tool_calls=last.tool_calls + message.tool_calls,
        )
    return out


def _joined(texts: Iterable[str]) -> str:
    return SEPARATOR.join(text for text in texts if text)
