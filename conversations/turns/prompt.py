"""A path of messages as the prompt of a generation."""

from __future__ import annotations

from collections.abc import Iterable

from conversations.models import Message
from conversations.parts import Part, ToolCallPart, ToolResultPart, reasoning_of, text_of
from inference.protocol.requests import ChatPrompt, ToolCall
from inference.protocol.requests import Message as PromptMessage
from llamaweb.lib.errors import InvalidError

MAX_PROMPT_CHARS = 8 * 1024 * 1024


def prompt_of(path: Iterable[Message]) -> ChatPrompt:
    """The messages of `path`, oldest first; answers that hold nothing are left out.

    Raises:
        InvalidError: more text than any context could take.
    """
    messages: list[PromptMessage] = []
    for message in path:
        messages.extend(_prompt_messages(message))
    total = sum(len(message.content) + len(message.reasoning) for message in messages)
    if total > MAX_PROMPT_CHARS:
        raise InvalidError(
            f"this branch holds {total} characters; at most {MAX_PROMPT_CHARS} can be sent",
            param="parts",
        )
    return ChatPrompt(tuple(messages))


def _prompt_messages(message: Message) -> Iterable[PromptMessage]:
    parts = message.typed_parts()
    if message.role != Message.Role.ASSISTANT:
        is_system = message.role == Message.Role.SYSTEM
        yield PromptMessage("system" if is_system else "user", text_of(parts))
        return
    start = 0
    for index, part in enumerate(parts):
        if isinstance(part, ToolResultPart):
            yield from _answer(parts[start:index])
            yield PromptMessage("tool", part.text, tool_call_id=part.call_id)
            start = index + 1
    yield from _answer(parts[start:])


def _answer(parts: tuple[Part, ...]) -> Iterable[PromptMessage]:
    content, reasoning = text_of(parts), reasoning_of(parts)
    calls = tuple(
        ToolCall(part.call_id, part.name, part.arguments)
        for part in parts
        if isinstance(part, ToolCallPart)
    )
    if content or calls:
        yield PromptMessage("assistant", content, reasoning=reasoning, tool_calls=calls)
