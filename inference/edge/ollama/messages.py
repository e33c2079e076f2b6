"""Wire messages to protocol messages: images are refused, results find their calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from inference.edge.message_parts import no_modality
from inference.edge.ollama.schemas import OllamaMessageIn
from inference.edge.openai.messages import messages_of
from inference.edge.openai.schemas import MessageIn
from inference.protocol.requests import Message, ToolCall


def chat_messages(messages: Sequence[OllamaMessageIn]) -> tuple[Message, ...]:
    """The chat as the protocol has it.

    Raises:
        InvalidError: `param` is the JSON path of the first field that can't be served.
    """
    for index, message in enumerate(messages):
        refuse_images(message.images, f"messages[{index}].images")
    return tuple(_linked(messages_of(list(map(_message, messages)))))


def refuse_images(images: Any, param: str) -> None:
    """Models here take text only.

    Raises:
        InvalidError: there are some.
    """
    if images is not None and images != []:
        raise no_modality("image", param)


def _message(message: OllamaMessageIn) -> MessageIn:
    return MessageIn(
        role=message.role,
        content=message.content,
        reasoning_content=message.thinking,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        name=message.tool_name,
    )


def _linked(messages: Iterable[Message]) -> Iterable[Message]:
    """Calls get ids where they have none, by their number in the chat, so that a chat that grows
    keeps them. A result without an id is that of the first call of its name, or of any, that has
    none yet."""
    num_calls = 0
    waiting: list[ToolCall] = []
    for message in messages:
        if message.role == "assistant":
            waiting = []
            for call in message.tool_calls:
                waiting.append(call if call.id else replace(call, id=f"call_{num_calls}"))
                num_calls += 1
            yield replace(message, tool_calls=tuple(waiting))
        elif message.role == "tool":
            call_id = message.tool_call_id or _call_of(message.name, waiting)
            waiting = [call for call in waiting if call.id != call_id]
            yield replace(message, tool_call_id=call_id or None)
        else:
            yield message


def _call_of(name: str | None, waiting: Sequence[ToolCall]) -> str:
    return next((call.id for call in waiting if not name or call.name == name), "")
