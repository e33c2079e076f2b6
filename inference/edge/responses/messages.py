"""Items to the messages of a chat. An answer is one message, whatever number of items it is in:
thoughts, text and calls that stand behind each other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from inference.edge.client_noise import without_noise
from inference.edge.message_parts import PART_SEPARATOR, part_text, parts_of
from inference.edge.responses.calls import ToolRef
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
CUT_CALLS: Final = ("function_call", "custom_tool_call")  # if they are incomplete
AGENT_MESSAGE: Final = "agent_message"  # of one agent of a client to another
# What can be shown to a model. All else, such as what other servers' own tools did, is left out.
SHOWN: Final = frozenset({"message", "reasoning", AGENT_MESSAGE, *CALL_FIELDS, *OUTPUTS})
SEALED: Final = "encrypted_content"  # a part that only the server that made it can read
MAX_KIND_CHARS: Final = 64  # of a type in a note


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
        if kind not in SHOWN:
            known = f"a {kind[:MAX_KIND_CHARS]}" if kind.isprintable() else "what has no name"
            notes.append(f"{path}: {known} isn't shown to the model")
        elif kind == AGENT_MESSAGE and _is_sealed(item.get("content")):
            notes.append(f"{path}: a message that is sealed isn't shown to the model")
        elif kind in CUT_CALLS and item.get("status") == "incomplete":
            notes.append(f"{path}: a call that was cut isn't shown to the model")
        else:
            chat.take(kind, item, path)
    return chat.messages(), notes


class _Answer:
    """An answer, as far as its items are known."""

    def __init__(self) -> None:
        self.thoughts: list[str] = []
        self.content = ""
        self.calls: list[ToolCall] = []

    def message(self) -> Message:
        """All of it."""
        reasoning = PART_SEPARATOR.join(filter(None, self.thoughts))
        return Message("assistant", self.content, reasoning, tuple(self.calls))


class _Chat:
    """Messages so far, and the answer that the next items may be of."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._answer: _Answer | None = None

    def messages(self) -> tuple[Message, ...]:
        """All of them."""
        self._flush()
        return tuple(self._messages)

    def take(self, kind: str, item: Item, path: str) -> None:
        """The next item, which is one of those that are shown.

        Raises:
            InvalidError: naming the path.
        """
        if kind == "message":
            self._message(item, path)
        elif kind == "reasoning":
            self._unsaid().thoughts.append(_thoughts(item, path))
        elif kind in CALL_FIELDS:
            self._open().calls.append(_call(kind, item, path))
        elif kind == AGENT_MESSAGE:
            self._flush()
            text = _text(item.get("content"), TEXT_KINDS, f"{path}.content")
            self._messages.append(Message("user", text))
        else:
            self._flush()
            self._messages.append(_output(item, path))

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
        self._unsaid().content = text

    def _open(self) -> _Answer:
        """The answer that the next item is of."""
        if self._answer is None:
            self._answer = _Answer()
        return self._answer

    def _unsaid(self) -> _Answer:
        """As `_open`; one that has only thoughts so far."""
        if self._answer is not None and (self._answer.content or self._answer.calls):
            self._flush()
        return self._open()

    def _flush(self) -> None:
        if self._answer is not None:
            self._messages.append(self._answer.message())
            self._answer = None


def _text(content: Any, kinds: Mapping[str, str], path: str) -> str:
    if isinstance(content, str):
        return valid_text(content)
    parts = parts_of(content, path)
    return PART_SEPARATOR.join(
        part_text(part, kinds, MODALITY_OF_PART, f"{path}[{index}]")
        for index, part in enumerate(parts)
        if part.get("type") != SEALED
    )


def _is_sealed(content: Any) -> bool:
    """Whether nobody here can read any of it."""
    return isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") == SEALED for part in content
    )


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
    namespace = item.get("namespace", "")
    if not isinstance(namespace, str):
        raise InvalidError("must be text", param=f"{path}.namespace")
    name = ToolRef(name, namespace).offered
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
