"""How much text there is in a prompt, for bounds and estimates before anybody counts tokens."""

from __future__ import annotations

from inference.protocol.requests import (
    ChatPrompt,
    InfillPrompt,
    Message,
    MixedPrompt,
    Prompt,
    TextPrompt,
)

CHARS_PER_TOKEN_ID = 8  # what a token id counts as


def prompt_chars(prompt: Prompt) -> int:
    """Characters of all that `prompt` says, whatever a template makes of it."""
    if isinstance(prompt, TextPrompt):
        return len(prompt.text)
    if isinstance(prompt, ChatPrompt):
        variables = len(prompt.template_kwargs_json or "") + len(prompt.tools_json or "")
        return sum(map(_message_chars, prompt.messages)) + variables
    if isinstance(prompt, MixedPrompt):
        return sum(len(p) if isinstance(p, str) else CHARS_PER_TOKEN_ID for p in prompt.parts)
    if isinstance(prompt, InfillPrompt):
        files = sum(len(file.name) + len(file.text) for file in prompt.extra)
        return len(prompt.prefix) + len(prompt.suffix) + len(prompt.begun) + files
    return len(prompt.tokens) * CHARS_PER_TOKEN_ID


def _message_chars(message: Message) -> int:
    calls = (len(call.id) + len(call.name) + len(call.arguments) for call in message.tool_calls)
    names = len(message.name or "") + len(message.tool_call_id or "")
    return len(message.content) + len(message.reasoning) + names + sum(calls)
