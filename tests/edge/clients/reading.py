"""What clients read out of the answers of each family, as strictly as the official types do."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anthropic.types
import ollama
import openai.types
import openai.types.chat
import openai.types.responses
from anthropic.types import RawMessageStreamEvent
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from tests.edge.anthropic.wire import parse_events
from tests.edge.clients.recorded import Recorded
from tests.edge.ollama.lines import joined, lines_of
from tests.edge.responses.events import events_of
from tests.edge.wire import parse_sse

Usage: TypeAlias = tuple[int, int, int]  # of the prompt, of the answer, of both

RESPONSE_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
MESSAGE_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


@dataclass
class Said:
    """An answer, the same whatever family said it; no `usage`: it wasn't told."""

    thoughts: str = ""
    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    usage: Usage | None = None


def chat(asked: Recorded, raw: bytes) -> Said:
    """Of `/v1/chat/completions`."""
    if not asked.is_stream:
        whole = openai.types.chat.ChatCompletion.model_validate_json(raw)
        assert whole.usage is not None
        message = json.loads(raw)["choices"][0]["message"]
        assert message["role"] == "assistant"
        return _chat_said(message, message.get("tool_calls", []), json.loads(raw)["usage"])
    stream = parse_sse(raw)
    assert stream.is_done
    for chunk in stream.data:
        openai.types.chat.ChatCompletionChunk.model_validate(chunk, strict=True)
    deltas = [choice["delta"] for chunk in stream.data for choice in chunk["choices"]]
    assert deltas[0]["role"] == "assistant"
    assert not any("role" in delta for delta in deltas[1:])
    usage = stream.data[-1].get("usage")
    calls: list[dict[str, Any]] = []
    for piece in (piece for delta in deltas for piece in delta.get("tool_calls", [])):
        if "id" in piece:
            assert (piece["index"], piece["type"]) == (len(calls), "function")
            calls.append(piece)
        else:
            calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    message = {
        name: "".join(delta.get(name) or "" for delta in deltas)
        for name in ("content", "reasoning_content")
    }
    return _chat_said(message, calls, usage)


def text(asked: Recorded, raw: bytes) -> Said:
    """Of `/v1/completions`."""
    if not asked.is_stream:
        openai.types.Completion.model_validate_json(raw)
        body = json.loads(raw)
        return Said(text=body["choices"][0]["text"], usage=_usage(body["usage"]))
    stream = parse_sse(raw)
    assert stream.is_done
    reasons = [c["finish_reason"] for chunk in stream.data for c in chunk["choices"]]
    assert reasons[:-1] == [None] * (len(reasons) - 1)
    for chunk in stream.data:  # the type is that of whole ones: it knows no choice without a reason
        choices = [{**c, "finish_reason": c["finish_reason"] or "stop"} for c in chunk["choices"]]
        openai.types.Completion.model_validate({**chunk, "choices": choices}, strict=True)
    return Said(text=stream.text, usage=_usage(stream.data[-1].get("usage")))


def responses(asked: Recorded, raw: bytes) -> Said:
    """Of `/v1/responses`."""
    if asked.is_stream:
        events = events_of(raw)
        assert events.names[0] == "response.created"
        assert events.names[-1] == "response.completed"
        for event in events.data:
            RESPONSE_EVENT.validate_python(event)
        body = events.response
        deltas = events.joined("response.output_text.delta")
    else:
        body = json.loads(raw)
        deltas = None
    response = openai.types.responses.Response.model_validate(body)
    assert deltas in (None, response.output_text)
    said = Said(text=response.output_text, usage=_usage(body["usage"], "input", "output"))
    for item in body["output"]:
        if item["type"] == "reasoning":
            parts = [*item.get("summary", []), *(item.get("content") or [])]
            said.thoughts += "".join(part["text"] for part in parts)
        if item["type"] == "function_call":
            said.calls.append((_full_name(item), json.loads(item["arguments"])))
        if item["type"] == "custom_tool_call":
            said.calls.append((_full_name(item), {"input": item["input"]}))
    return said


def messages(asked: Recorded, raw: bytes) -> Said:
    """Of `/v1/messages`."""
    if asked.is_stream:
        events = parse_events(raw)
        for event in events.data:
            MESSAGE_EVENT.validate_python(event)
        _refuse_gaps(events.data)
        message = events.message
    else:
        message = json.loads(raw)
    anthropic.types.Message.model_validate(message)
    used = message["usage"]
    num_input = used["input_tokens"] + used["cache_read_input_tokens"]
    said = Said(usage=(num_input, used["output_tokens"], num_input + used["output_tokens"]))
    for block in message["content"]:
        said.thoughts += block.get("thinking", "")
        said.text += block.get("text", "")
        if block["type"] == "tool_use":
            said.calls.append((block["name"], block["input"]))
    return said


def ollama_chat(asked: Recorded, raw: bytes) -> Said:
    """Of `/api/chat`."""
    lines = lines_of(raw) if asked.is_stream else [json.loads(raw)]
    for line in lines:
        ollama.ChatResponse.model_validate(line)
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    message, last = joined(asked.route, lines), lines[-1]
    calls = [call["function"] for call in message["tool_calls"]]
    used = (last["prompt_eval_count"], last["eval_count"])
    return Said(
        message["thinking"],
        message["content"],
        [(call["name"], call["arguments"]) for call in calls],
        (*used, sum(used)),
    )


READERS: dict[str, Callable[[Recorded, bytes], Said]] = {
    "/v1/chat/completions": chat,
    "/v1/completions": text,
    "/v1/responses": responses,
    "/v1/messages": messages,
    "/api/chat": ollama_chat,
}


def vectors(asked: Recorded, raw: bytes) -> list[list[float]]:
    """Of `/v1/embeddings` and `/api/embed`."""
    body = json.loads(raw)
    if asked.route == "/api/embed":
        return [list(vector) for vector in ollama.EmbedResponse.model_validate(body).embeddings]
    for item in body["data"]:
        item["embedding"] = _numbers(item["embedding"])
    made = openai.types.CreateEmbeddingResponse.model_validate(body)
    assert made.usage.total_tokens == made.usage.prompt_tokens > 0
    return [item.embedding for item in made.data]


def _chat_said(message: dict[str, Any], calls: list[dict[str, Any]], usage: Any) -> Said:
    functions = [call["function"] for call in calls]
    return Said(
        message.get("reasoning_content", ""),
        message["content"] or "",
        [(function["name"], json.loads(function["arguments"])) for function in functions],
        _usage(usage),
    )


def _usage(used: Any, one: str = "prompt", other: str = "completion") -> Usage | None:
    if used is None:
        return None
    return used[f"{one}_tokens"], used[f"{other}_tokens"], used["total_tokens"]


def _full_name(item: dict[str, Any]) -> str:
    """As the model was offered it."""
    space = item.get("namespace")
    return f"{space}__{item['name']}" if space else str(item["name"])


def _refuse_gaps(events: list[dict[str, Any]]) -> None:
    """Blocks are numbered from 0, and each ends before the next begins."""
    blocks = [(e["type"], e["index"]) for e in events if e["type"].startswith("content_block_s")]
    assert blocks == [
        (f"content_block_{edge}", index)
        for index in range(len(blocks) // 2)
        for edge in ("start", "stop")
    ]


def _numbers(embedding: Any) -> list[float]:
    if isinstance(embedding, list):
        return embedding
    data = base64.b64decode(embedding, validate=True)
    return list(memoryview(data).cast("f"))
