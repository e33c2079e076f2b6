"""Wire messages to protocol messages: system text, content blocks, tool history."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from inference.edge.anthropic.schemas import MessageIn, PromptIn
from inference.edge.client_noise import without_noise
from inference.edge.message_parts import (
    PART_SEPARATOR,
    no_modality,
    parts_of,
    text_at,
)
from inference.protocol.requests import Message, ToolCall
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

Block: TypeAlias = dict[str, Any]

SYSTEM_ROLES = ("system", "developer")
ROLES = (*SYSTEM_ROLES, "user", "assistant")
ERROR_HEAD = "Error:\n"  # a result that says that it is one
MODALITY_OF_BLOCK = {"image": "image", "container_upload": "file"}
# What Anthropic's own servers did for an answer, or are to do; only they can read it.
FOREIGN_BLOCKS = frozenset(
    {
        *("redacted_thinking", "server_tool_use", "mcp_tool_use", "mcp_tool_listing", "fallback"),
        *("tool_addition", "tool_removal", "browser_state"),
    }
)
FOREIGN_RESULT = "_tool_result"  # the end of "web_search_tool_result" and its like


def messages_of(body: PromptIn) -> tuple[Message, ...]:
    """The chat as the protocol has it.

    Raises:
        InvalidError: `param` is the JSON path of the first field that can't be served.
    """
    out = _system(body.system)
    for index, message in enumerate(body.messages):
        out += _messages(message, f"messages[{index}]")
    return tuple(_with_one_end(out))


def _with_one_end(messages: list[Message]) -> list[Message]:
    """Answers that stand behind each other at the end are one, which is to be continued."""
    start = len(messages)
    while start and messages[start - 1].role == "assistant":
        start -= 1
    answers = messages[start:]
    if len(answers) < 2:
        return messages
    whole = Message(
        "assistant",
        PART_SEPARATOR.join(answer.content for answer in answers if answer.content),
        PART_SEPARATOR.join(answer.reasoning for answer in answers if answer.reasoning),
        tuple(call for answer in answers for call in answer.tool_calls),
    )
    return [*messages[:start], whole]


def _system(system: Any) -> list[Message]:
    """The system text; none if it is only what a client notes for itself."""
    if system is None or system == []:
        return []
    text = _text(system, "system")
    kept = without_noise(text)
    return [Message("system", kept)] if kept.strip() or not text else []


def _messages(message: MessageIn, path: str) -> list[Message]:
    if message.role not in ROLES:
        raise InvalidError(f"unknown role, allowed: {', '.join(ROLES)}", param=f"{path}.role")
    path = f"{path}.content"
    content = message.content
    if content is None:
        raise InvalidError(f"{message.role} message must contain 'content'", param=path)
    if content == [] and message.role == "assistant":  # one that said nothing, or was cut
        return [Message("assistant", "")]
    if message.role in SYSTEM_ROLES:
        text = without_noise(_text(content, path))
        return [Message("system", text)] if text or isinstance(content, str) else []
    if isinstance(content, str):
        text = valid_text(content)
        return [Message("assistant" if message.role == "assistant" else "user", text)]
    blocks = {f"{path}[{index}]": part for index, part in enumerate(parts_of(content, path))}
    return [_answer(blocks)] if message.role == "assistant" else _asked(blocks)


def _answer(blocks: Mapping[str, Block]) -> Message:
    """An answer from its blocks."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for path, block in blocks.items():
        kind = _kind(block, path)
        if kind == "thinking":
            thoughts.append(text_at(block, "thinking", path))
        elif kind == "tool_use":
            calls.append(_call(block, path))
        elif not _is_foreign(block, kind):
            texts.append(_text_block(block, kind, path))
    return Message(
        "assistant",
        PART_SEPARATOR.join(texts),
        reasoning=PART_SEPARATOR.join(filter(None, thoughts)),
        tool_calls=tuple(calls),
    )


def _asked(blocks: Mapping[str, Block]) -> list[Message]:
    """Results of tools, which templates want right behind the calls, then the user's text."""
    results: list[Message] = []
    texts: list[str] = []
    for path, block in blocks.items():
        kind = _kind(block, path)
        if kind == "tool_result":
            results.append(_result(block, path))
        elif not _is_foreign(block, kind):
            texts.append(_text_block(block, kind, path))
    return [*results, *([Message("user", PART_SEPARATOR.join(texts))] if texts else [])]


def _call(block: Block, path: str) -> ToolCall:
    arguments = {} if block.get("input") is None else block["input"]
    if not isinstance(arguments, dict):
        raise InvalidError("must be an object", param=f"{path}.input")
    return ToolCall(
        text_at(block, "id", path),
        text_at(block, "name", path),
        valid_text(json.dumps(arguments, ensure_ascii=False)),
    )


def _result(block: Block, path: str) -> Message:
    content, is_error = block.get("content"), block.get("is_error")
    text = "" if content is None or content == [] else _text(content, f"{path}.content")
    if not isinstance(is_error or False, bool):
        raise InvalidError("must be true or false", param=f"{path}.is_error")
    call_id = text_at(block, "tool_use_id", path)
    return Message("tool", ERROR_HEAD + text if is_error else text, tool_call_id=call_id)


def _text(content: Any, path: str) -> str:
    """The text of a content without calls and their results."""
    if isinstance(content, str):
        return valid_text(content)
    paths = {f"{path}[{index}]": part for index, part in enumerate(parts_of(content, path))}
    return PART_SEPARATOR.join(
        _text_block(block, kind, at)
        for at, block in paths.items()
        if not _is_foreign(block, kind := _kind(block, at))
    )


def _text_block(block: Block, kind: str, path: str) -> str:
    modality = MODALITY_OF_BLOCK.get(kind)
    if modality is not None:
        raise no_modality(modality, path)
    read = _READERS.get(kind)
    if read is None:
        raise InvalidError("unsupported content block type", param=f"{path}.type")
    return read(block, path)


def _is_foreign(block: Block, kind: str) -> bool:
    """Whether a block is passed over."""
    is_failed = kind == "compaction" and block.get("content") is None
    return is_failed or kind in FOREIGN_BLOCKS or kind.endswith(FOREIGN_RESULT)


def _plain(block: Block, path: str) -> str:
    return text_at(block, "text", path)


def _document(block: Block, path: str) -> str:
    """A document that is text, under its title."""
    source = block.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    if not isinstance(source, dict) or not isinstance(kind, str):
        raise InvalidError("must be an object with a 'type'", param=f"{path}.source")
    at = f"{path}.source"
    if kind == "text":
        return _titled(block, text_at(source, "data", at), path)
    if kind == "content":
        return _titled(block, _text(source.get("content"), f"{at}.content"), path)
    raise no_modality("file", at)


def _search_result(block: Block, path: str) -> str:
    where = text_at(block, "source", path)
    text = _text(block.get("content"), f"{path}.content")
    return _titled(block, f"{where}\n{text}", path)


def _tool_reference(block: Block, path: str) -> str:
    return text_at(block, "tool_name", path)


def _compaction(block: Block, path: str) -> str:
    """The summary of what was said before."""
    return text_at(block, "content", path)


_READERS: dict[str, Callable[[Block, str], str]] = {
    "text": _plain,
    "document": _document,
    "search_result": _search_result,
    "tool_reference": _tool_reference,
    "compaction": _compaction,
}


def _titled(block: Block, text: str, path: str) -> str:
    return text if block.get("title") is None else f"{text_at(block, 'title', path)}\n{text}"


def _kind(block: Block, path: str) -> str:
    kind = block.get("type")
    if not isinstance(kind, str):
        raise InvalidError("must be text", param=f"{path}.type")
    return kind


def continues(messages: Sequence[Message]) -> bool:
    """Whether the last message is the start of the answer.

    Raises:
        InvalidError: it has calls, so it is complete.
    """
    if not messages or messages[-1].role != "assistant":
        return False
    if messages[-1].tool_calls:
        raise InvalidError(
            "the last answer has tool calls; their results have to follow it", param="messages"
        )
    return True
