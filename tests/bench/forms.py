"""How each API family is asked for one streamed answer, and what the events of its stream say.

Greedy answers of one length. Only some families can be told to ignore the end token; a prompt's
answer is the same in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.bench.workloads import Chat

Event: TypeAlias = Mapping[str, Any]
Body: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """What one event says: text, and tokens of prompt and answer (0: nothing of them)."""

    text: str = ""
    prompt_tokens: int = 0
    num_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Form:
    """A family on the wire. `body` of a chat, its text as the model's template renders it, and the
    number of new tokens; `is_raw`: it takes that text. `has_lines`: an event is a line, no SSE."""

    name: str
    path: str
    body: Callable[[Chat, str, int], Body]
    read: Callable[[Event], Said]
    is_raw: bool = False
    has_lines: bool = False


def _messages(chat: Chat) -> list[Body]:
    return [{"role": role, "content": text} for role, text in chat]


def _chat_body(chat: Chat, _text: str, max_tokens: int) -> Body:
    return {"messages": _messages(chat), **_openai_fields(max_tokens)}


def _text_body(_chat: Chat, text: str, max_tokens: int) -> Body:
    return {"prompt": text, **_openai_fields(max_tokens)}


def _openai_fields(max_tokens: int) -> Body:
    return {
        "max_tokens": max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _native_body(_chat: Chat, text: str, max_tokens: int) -> Body:
    fields = {"n_predict": max_tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    return {"prompt": text, **fields}


def _responses_body(chat: Chat, _text: str, max_tokens: int) -> Body:
    fields = {"max_output_tokens": max_tokens, "temperature": 0, "stream": True, "store": False}
    return {"input": _messages(chat), **fields}


def _anthropic_body(chat: Chat, _text: str, max_tokens: int) -> Body:
    fields = {"max_tokens": max_tokens, "temperature": 0, "stream": True}
    return {"messages": _messages(chat), **fields}


def _ollama_body(chat: Chat, _text: str, max_tokens: int) -> Body:
    return {"messages": _messages(chat), "options": {"num_predict": max_tokens, "temperature": 0}}


def _chat_said(event: Event) -> Said:
    usage = event.get("usage") or {}
    deltas = [choice["delta"] for choice in event.get("choices", ())]
    texts = (delta.get("content") or delta.get("reasoning_content") or "" for delta in deltas)
    return _openai_said("".join(texts), usage)


def _text_said(event: Event) -> Said:
    texts = (choice.get("text") or "" for choice in event.get("choices", ()))
    return _openai_said("".join(texts), event.get("usage") or {})


def _openai_said(text: str, usage: Event) -> Said:
    return Said(text, usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0))


def _native_said(event: Event) -> Said:
    if not event["stop"]:
        return Said(event["content"])
    return Said(event["content"], event["tokens_evaluated"], event["tokens_predicted"])


def _responses_said(event: Event) -> Said:
    if event["type"] == "response.output_text.delta":
        return Said(event["delta"])
    usage = event.get("response", {}).get("usage") or {}
    return Said("", usage.get("input_tokens", 0), usage.get("output_tokens", 0))


def _anthropic_said(event: Event) -> Said:
    if event["type"] == "content_block_delta":
        return Said(event["delta"].get("text", ""))
    if event["type"] == "message_start":
        return Said("", _anthropic_prompt(event["message"]["usage"]))
    if event["type"] == "message_delta":
        return Said("", 0, event["usage"]["output_tokens"])
    return Said()


def _anthropic_prompt(usage: Event) -> int:
    """What was in a cache is counted apart there."""
    return sum(value for key, value in usage.items() if key.endswith("input_tokens"))


def _ollama_said(event: Event) -> Said:
    text = event["message"]["content"]
    return Said(text, event.get("prompt_eval_count", 0), event.get("eval_count", 0))


CHAT = Form("chat completions", "/v1/chat/completions", _chat_body, _chat_said)
COMPLETIONS = Form("completions", "/v1/completions", _text_body, _text_said, is_raw=True)
RESPONSES = Form("responses", "/v1/responses", _responses_body, _responses_said)
ANTHROPIC = Form("anthropic messages", "/v1/messages", _anthropic_body, _anthropic_said)
OLLAMA = Form("ollama chat", "/api/chat", _ollama_body, _ollama_said, has_lines=True)
NATIVE = Form("native completion", "/completion", _native_body, _native_said, is_raw=True)
FORMS = (CHAT, COMPLETIONS, RESPONSES, ANTHROPIC, OLLAMA, NATIVE)
