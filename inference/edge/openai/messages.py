"""Wire messages to protocol messages: roles, content parts, tool history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from inference.edge.client_noise import without_noise
from inference.edge.message_parts import (
    PART_SEPARATOR,
    part_text,
    parts_of,
    refuse_two_answers,
)
from inference.edge.openai.schemas import MessageIn
from inference.protocol.requests import Message, Role, ToolCall
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

MAX_TOOL_CALLS = 256

# "developer" is the newer name of "system", "function" the older one of "tool".
ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
# Where the parts of a message have their text; only answers have refusals.
TEXT_KINDS = {"text": "text", "input_text": "text", "output_text": "text"}
ANSWER_KINDS = {**TEXT_KINDS, "refusal": "refusal"}
MODALITY_OF_PART = {
    "image_url": "image",
    "image": "image",
    "input_image": "image",
    "input_audio": "audio",
    "audio_url": "audio",
    "input_video": "video",
    "video_url": "video",
    "file": "file",
    "input_file": "file",
}


def messages_of(messages: Sequence[MessageIn]) -> tuple[Message, ...]:
    """The chat as the protocol has it.

    Raises:
        InvalidError: `param` is the JSON path of the first field that can't be served.
    """
    out = tuple(_message(message, f"messages[{i}]") for i, message in enumerate(messages))
    refuse_two_answers(out)
    return out


def _message(message: MessageIn, path: str) -> Message:
    role = ROLES.get(message.role)
    if role is None:
        allowed = ", ".join(ROLES)
        raise InvalidError(f"unknown role, allowed: {allowed}", param=f"{path}.role")
    calls: tuple[ToolCall, ...] = ()
    content = message.content
    if role == "assistant":
        calls = _calls(message, path)
        content = message.refusal if content is None else content
    if content is None and not (role == "assistant" and _is_answer(message)):
        what = "'content' or 'tool_calls'" if role == "assistant" else "'content'"
        raise InvalidError(f"{role} message must contain {what}", param=f"{path}.content")
    kinds = ANSWER_KINDS if role == "assistant" else TEXT_KINDS
    text = _content(content, kinds, f"{path}.content")
    return Message(
        role=role,
        content=without_noise(text) if role == "system" else text,
        reasoning=valid_text(message.reasoning_content or "") if role == "assistant" else "",
        tool_calls=calls,
        tool_call_id=message.tool_call_id if role == "tool" else None,
        name=message.name,
    )


def _is_answer(message: MessageIn) -> bool:
    """Whether it says anything without content: what streams were joined to has null there."""
    calls = (message.tool_calls, message.function_call)
    return bool(message.reasoning_content) or any(call is not None for call in calls)


def _content(content: Any, kinds: Mapping[str, str], path: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return valid_text(content)
    parts = parts_of(content, path)
    return PART_SEPARATOR.join(
        part_text(part, kinds, MODALITY_OF_PART, f"{path}[{i}]") for i, part in enumerate(parts)
    )


def _calls(message: MessageIn, path: str) -> tuple[ToolCall, ...]:
    """The calls of an answer; `function_call` is the older form of one without an id."""
    if message.tool_calls is not None:
        return _tool_calls(message.tool_calls, f"{path}.tool_calls")
    if message.function_call is not None:
        return (_function_call(message.function_call, "", f"{path}.function_call"),)
    return ()


def _tool_calls(calls: Any, path: str) -> tuple[ToolCall, ...]:
    if not isinstance(calls, list):
        raise InvalidError("must be a list", param=path)
    if len(calls) > MAX_TOOL_CALLS:
        raise InvalidError(
            f"has {len(calls)} calls, at most {MAX_TOOL_CALLS} are allowed", param=path
        )
    return tuple(_tool_call(call, f"{path}[{i}]") for i, call in enumerate(calls))


def _tool_call(call: Any, path: str) -> ToolCall:
    if not isinstance(call, dict):
        raise InvalidError("must be an object", param=path)
    call_id = call.get("id")
    if call_id is not None and not isinstance(call_id, str):
        raise InvalidError("must be text", param=f"{path}.id")
    return _function_call(call.get("function"), call_id or "", f"{path}.function")


def _function_call(function: Any, call_id: str, path: str) -> ToolCall:
    if not isinstance(function, dict):
        raise InvalidError("must be an object", param=path)
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str):
        raise InvalidError("must be text", param=f"{path}.name")
    if isinstance(arguments, dict):  # some clients send them parsed
        arguments = json.dumps(arguments, ensure_ascii=False)
    if arguments is not None and not isinstance(arguments, str):
        raise InvalidError("must be JSON text", param=f"{path}.arguments")
    return ToolCall(call_id, valid_text(name), valid_text(arguments or "{}"))
