"""Items to the messages of a chat. An answer is one message, whatever number of items it is in:
thoughts, text and calls that stand behind each other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from inference.edge.client_noise import without_noise
from inference.edge.message_parts import PART_SEPARATOR, no_modality, parts_of, text_at
from inference.edge.responses.items import Item
from inference.protocol.requests import Message, Role, ToolCall
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
TEXT_KINDS: Final = {"input_text": "text", "output_text": "text", "text": "text"}
ANSWER_KINDS: Final = {**TEXT_KINDS, "refusal": "refusal"}
THOUGHT_KINDS: Final = {"reasoning_text": "text", "summary_text": "text", "text": "text"}
MODALITY_OF_PART: Final = {
    "input_image": "image",
    "image_url": "image",
    "input_file": "file",
    "input_audio": "audio",
    "input_video": "video",
}
# Where calls have what they were given, and outputs what came of it.
CALL_FIELDS: Final = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}
OUTPUTS: Final = frozenset(f"{kind}_output" for kind in CALL_FIELDS)
# What other servers' own tools did: nothing of it can be shown to a model here.
LEFT_OUT: Final = frozenset(
    {
        *("web_search_call", "file_search_call", "computer_call", "computer_call_output"),
        *("code_interpreter_call", "image_generation_call", "tool_search_call"),
        *("tool_search_output", "mcp_list_tools", "mcp_call", "mcp_approval_request"),
        *("mcp_approval_response", "compaction", "compaction_trigger", "ghost_snapshot"),
        *("additional_tools", "configuration_update", "program", "program_output"),
    }
)


def messages_of(items: Iterable[tuple[str, Item]]) -> tuple[tuple[Message, ...], list[str]]:
    """The chat that `items`, each with its path in the request, tell; and what was left out of it,
    in words for the client.

    Raises:
        InvalidError: naming the path.
    """
    chat = _Chat()
    notes: list[str] = []
    for path, item in items:
        kind = item["type"]
        if kind in LEFT_OUT:
            notes.append(f"{path}: a {kind} isn't shown to the model")
        elif kind == "function_call" and item.get("status") == "incomplete":
            notes.append(f"{path}: a call that was cut isn't shown to the model")
        else:
            chat.take(kind, item, path)
    return chat.messages(), notes


class _Chat:
    """Messages so far, and the answer that the next items may be of."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._answer: Message | None = None

    def messages(self) -> tuple[Message, ...]:
        """All of them."""
        self._flush()
        return tuple(self._messages)

    def take(self, kind: str, item: Item, path: str) -> None:
        """The next item.

        Raises:
            InvalidError: naming the path.
        """
        if kind == "message":
            self._message(item, path)
        elif kind == "reasoning":
            self._thoughts(_thoughts(item, path))
        elif kind in CALL_FIELDS:
            answer = self._answer or Message("assistant")
            call = _call(kind, item, path)
            self._answer = replace(answer, tool_calls=(*answer.tool_calls, call))
        elif kind in OUTPUTS:
            self._flush()
            self._messages.append(_output(item, path))
        else:
            raise InvalidError("unknown type of item", param=f"{path}.type")

    def _message(self, item: Item, path: str) -> None:
        role = item.get("role")
        known = ROLES.get(role) if isinstance(role, str) else None
        if known is None:
            raise InvalidError(f"unknown role, allowed: {', '.join(ROLES)}", param=f"{path}.role")
        if known != "assistant":
            self._flush()
            if "content" not in item:
                raise InvalidError(f"{known} message must contain 'content'", param=path)
            text = _text(item["content"], TEXT_KINDS, f"{path}.content")
            text = without_noise(text) if known == "system" else text
            self._messages.append(Message(known, text))
            return
        content = item.get("content", "")
        text = "" if content == [] else _text(content, ANSWER_KINDS, f"{path}.content")
        answer = self._answer
        if answer is not None and (answer.content or answer.tool_calls):
            self._flush()
            answer = None
        self._answer = replace(answer or Message("assistant"), content=text)

    def _thoughts(self, text: str) -> None:
        answer = self._answer
        if answer is not None and (answer.content or answer.tool_calls):
            self._flush()
            answer = None
        before = answer.reasoning if answer is not None else ""
        both = PART_SEPARATOR.join(part for part in (before, text) if part)
        self._answer = Message("assistant", reasoning=both)

    def _flush(self) -> None:
        if self._answer is not None:
            self._messages.append(self._answer)
            self._answer = None


def _text(content: Any, kinds: Mapping[str, str], path: str) -> str:
    if isinstance(content, str):
        return valid_text(content)
    parts = parts_of(content, path)
    return PART_SEPARATOR.join(
        _part(part, kinds, f"{path}[{index}]") for index, part in enumerate(parts)
    )


def _part(part: Mapping[str, Any], kinds: Mapping[str, str], path: str) -> str:
    kind = part.get("type")
    modality = MODALITY_OF_PART.get(kind) if isinstance(kind, str) else None
    if modality is not None:
        raise no_modality(modality, path)
    field = kinds.get(kind) if isinstance(kind, str) else None
    if field is None:
        raise InvalidError("unsupported content part type", param=f"{path}.type")
    return text_at(part, field, path)


def _thoughts(item: Item, path: str) -> str:
    """The thoughts of an answer, whole or summarised; "" where they are sealed."""
    for field in ("content", "summary"):
        parts = item.get(field)
        if parts is not None and parts != []:
            return _text(parts, THOUGHT_KINDS, f"{path}.{field}")
    return ""


def _call(kind: str, item: Item, path: str) -> ToolCall:
    field = CALL_FIELDS[kind]
    given = item.get(field)
    if kind == "function_call":
        if given is not None and not isinstance(given, str | dict):
            raise InvalidError("must be JSON text", param=f"{path}.{field}")
        name = _required(item, "name", path)
    else:
        given = {field: given}
        name = item.get("name") or kind.removesuffix("_call")
        if not isinstance(name, str):
            raise InvalidError("must be text", param=f"{path}.name")
    arguments = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
    call_id = item.get("call_id", item.get("id", ""))
    if not isinstance(call_id, str):
        raise InvalidError("must be text", param=f"{path}.call_id")
    return ToolCall(valid_text(call_id), valid_text(name), valid_text(arguments or "{}"))


def _output(item: Item, path: str) -> Message:
    """What a call gave: text or parts, or of some tools a list of objects."""
    call_id = item.get("call_id", item.get("id"))
    if not isinstance(call_id, str):
        raise InvalidError("must be text", param=f"{path}.call_id")
    output = item.get("output", "")
    if item["type"] == "shell_call_output" and isinstance(output, list):
        text = valid_text(json.dumps(output, ensure_ascii=False))
    else:
        text = "" if output == [] else _text(output, TEXT_KINDS, f"{path}.output")
    return Message("tool", text, tool_call_id=valid_text(call_id))


def _required(item: Item, field: str, path: str) -> str:
    value = item.get(field)
    if not isinstance(value, str) or not value:
        raise InvalidError("must be text", param=f"{path}.{field}")
    return value
