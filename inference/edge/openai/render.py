"""Steps of generations to the wire shapes of the OpenAI family. Pure: no clock, no ids of its own.

The whole reply is made from the chunks of the stream, so the two can't differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from inference.edge.openai.options import ReplyOptions
from inference.edge.steps import Begin, End, Piece, Prefill, Step
from inference.protocol.events import Timings, TokenLogprobs, TokenProb, Usage
from inference.protocol.requests import ReplyInfo

Chunk: TypeAlias = dict[str, Any]
MS_PER_S = 1000.0


class ChoiceRenderer:
    """The chunks of one choice. `end` is its last step once it came."""

    def __init__(self, reply: ReplyInfo, options: ReplyOptions) -> None:
        self.reply = reply
        self.options = options
        self.end: End | None = None
        self._has_role = False

    def render(self, step: Step) -> list[Chunk]:
        """The chunks of a step; a Broken one has none, it becomes an error."""
        if isinstance(step, End):
            self.end = step
        if self.options.kind == "text":
            return self._text(step)
        return self._chat(step)

    def _chat(self, step: Step) -> list[Chunk]:
        if isinstance(step, Begin):
            return self._role()
        if isinstance(step, Prefill):
            if not self.options.return_progress:
                return []
            chunk = self._chunk(_delta(self._index, _ROLE_DELTA))
            return [*self._role(), {**chunk, "prompt_progress": _progress(step)}]
        if isinstance(step, Piece):
            delta = _piece_delta(step)
            if delta is None:
                return []
            choice = _delta(self._index, delta)
            self._add_logprobs(choice, step.logprobs)
            return [*self._role(), self._chunk(choice)]
        if isinstance(step, End):
            choice = _delta(self._index, {}, step.reason)
            self._add_logprobs(choice, step.logprobs)
            chunk = self._chunk(choice)
            if not self.options.include_usage:
                chunk["timings"] = timings_body(step.usage, step.timings)
            return [*self._role(), chunk]
        return []

    def _role(self) -> list[Chunk]:
        """The chunk with the role, once, and then what the client wants repeated."""
        if self._has_role:
            return []
        self._has_role = True
        chunks = [self._chunk(_delta(self._index, _ROLE_DELTA))]
        if self.options.echo:
            chunks.append(self._chunk(_delta(self._index, {"content": self.options.echo})))
        return chunks

    def _text(self, step: Step) -> list[Chunk]:
        if isinstance(step, Prefill) and self.options.return_progress:
            chunk = self._chunk(self._text_choice("", ()))
            return [{**chunk, "prompt_progress": _progress(step)}]
        if isinstance(step, Piece):
            return [self._chunk(self._text_choice(step.text, step.logprobs))]
        if isinstance(step, End):
            chunk = self._chunk(self._text_choice("", step.logprobs, step.reason))
            chunk["usage"] = usage_body(step.usage)
            chunk["timings"] = timings_body(step.usage, step.timings)
            return [chunk]
        return []

    def _text_choice(
        self, text: str, logprobs: Sequence[TokenLogprobs], reason: str | None = None
    ) -> Chunk:
        choice: Chunk = {"text": text, "index": self._index, "logprobs": None}
        self._add_logprobs(choice, logprobs)
        choice["finish_reason"] = reason
        return choice

    def _add_logprobs(self, choice: Chunk, logprobs: Sequence[TokenLogprobs]) -> None:
        if self.options.logprobs and logprobs:
            body = _prob_item if self.options.post_sampling else _logprob_item
            items = [body(item, self.options.top) for item in logprobs]
            choice["logprobs"] = {"content": items}

    def _chunk(self, choice: Chunk) -> Chunk:
        chunk = envelope(self.reply, _CHUNK_OBJECTS[self.options.kind], [choice])
        if self.options.kind == "chat" and self.options.include_usage:
            chunk["usage"] = None
        return chunk

    @property
    def _index(self) -> int:
        return self.options.index


_ROLE_DELTA: Chunk = {"role": "assistant", "content": None}
_DELTA_NAMES = {"content": "content", "reasoning": "reasoning_content"}
_CHUNK_OBJECTS = {"chat": "chat.completion.chunk", "text": "text_completion"}


def usage_chunk(choices: Sequence[ChoiceRenderer]) -> Chunk | None:
    """The chunk after the last choice, if the client asked for it."""
    first = choices[0]
    if first.options.kind == "text" or not first.options.include_usage or first.end is None:
        return None
    chunk = envelope(first.reply, _CHUNK_OBJECTS["chat"], [])
    chunk["usage"] = usage_body(total_usage(choices))
    chunk["timings"] = timings_body(first.end.usage, first.end.timings)
    return chunk


def whole_reply(choices: Sequence[ChoiceRenderer], chunks: Sequence[Chunk]) -> Chunk:
    """The reply without streaming: the same chunks, joined; every choice has ended."""
    first = choices[0]
    assert first.end is not None
    joined = [_JOIN[first.options.kind](choice, chunks) for choice in choices]
    kind = "chat.completion" if first.options.kind == "chat" else "text_completion"
    body = envelope(first.reply, kind, joined)
    body["usage"] = usage_body(total_usage(choices))
    body["timings"] = timings_body(first.end.usage, first.end.timings)
    return body


def total_usage(choices: Sequence[ChoiceRenderer]) -> Usage:
    """Completion tokens of all choices; a prompt with several choices counts once."""
    ends = [choice.end for choice in choices]
    total = Usage()
    for index, end in enumerate(ends):
        if end is None:
            continue
        is_first = index % choices[0].options.per_prompt == 0
        total = Usage(
            total.prompt_tokens + end.usage.prompt_tokens * is_first,
            total.completion_tokens + end.usage.completion_tokens,
            total.cached_tokens + end.usage.cached_tokens * is_first,
        )
    return total


def usage_body(usage: Usage) -> Chunk:
    """`usage` on the wire."""
    return {
        "completion_tokens": usage.completion_tokens,
        "prompt_tokens": usage.prompt_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def timings_body(usage: Usage, timings: Timings) -> Chunk:
    """`timings` on the wire. The first token comes with the prompt, so rates leave it out."""
    prompt_n = max(0, usage.prompt_tokens - usage.cached_tokens)
    steps = max(0, usage.completion_tokens - 1)
    prompt_ms, predicted_ms = _finite(timings.prefill_ms), _finite(timings.decode_ms)
    return {
        "cache_n": usage.cached_tokens,
        "prompt_n": prompt_n,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": _ratio(prompt_ms, prompt_n),
        "prompt_per_second": _ratio(prompt_n * MS_PER_S, prompt_ms),
        "predicted_n": usage.completion_tokens,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": _ratio(predicted_ms, steps),
        "predicted_per_second": _ratio(steps * MS_PER_S, predicted_ms),
    }


def envelope(reply: ReplyInfo, kind: str, choices: list[Chunk]) -> Chunk:
    """What all objects of one reply have in common."""
    return {
        "choices": choices,
        "created": reply.created_at,
        "id": reply.reply_id,
        "model": reply.model_name,
        "system_fingerprint": reply.fingerprint,
        "object": kind,
    }


def _join_chat(choice: ChoiceRenderer, chunks: Sequence[Chunk]) -> Chunk:
    mine = _choices_of(choice, chunks)
    assert choice.end is not None
    message: Chunk = {"role": "assistant"}
    message["content"] = "".join(c["delta"].get("content") or "" for c in mine)
    reasoning = "".join(c["delta"].get("reasoning_content", "") for c in mine)
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls := _joined_calls(mine):
        message["tool_calls"] = calls
    out: Chunk = {
        "finish_reason": choice.end.reason,
        "index": choice.options.index,
        "message": message,
    }
    if choice.options.logprobs:
        out["logprobs"] = {"content": _joined_logprobs(mine)}
    return out


def _join_text(choice: ChoiceRenderer, chunks: Sequence[Chunk]) -> Chunk:
    mine = _choices_of(choice, chunks)
    assert choice.end is not None
    return {
        "text": "".join(c["text"] for c in mine),
        "index": choice.options.index,
        "logprobs": {"content": _joined_logprobs(mine)} if choice.options.logprobs else None,
        "finish_reason": choice.end.reason,
    }


_JOIN = {"chat": _join_chat, "text": _join_text}


def _choices_of(choice: ChoiceRenderer, chunks: Sequence[Chunk]) -> list[Chunk]:
    return [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice.options.index]


def _piece_delta(piece: Piece) -> Chunk | None:
    """What a piece says on the wire; None for the end of a tool call, which nothing stands for."""
    if piece.kind != "tool_call":
        return {_DELTA_NAMES[piece.kind]: piece.text}
    call = piece.call
    if call is None or not (call.id or piece.text):
        return None
    out: Chunk = {"index": call.index}
    function: Chunk = {"arguments": piece.text}
    if call.id:
        out |= {"id": call.id, "type": "function"}
        function = {"name": call.name, **function}
    return {"tool_calls": [{**out, "function": function}]}


def _joined_calls(choices: Sequence[Chunk]) -> list[Chunk]:
    """The tool calls that the deltas are of."""
    calls: list[Chunk] = []
    arguments: list[list[str]] = []
    for delta in (d for c in choices for d in c["delta"].get("tool_calls", ())):
        if "id" in delta:
            function = {"name": delta["function"]["name"]}
            calls.append({"type": "function", "function": function, "id": delta["id"]})
            arguments.append([])
        arguments[delta["index"]].append(delta["function"]["arguments"])
    for call, pieces in zip(calls, arguments, strict=True):
        call["function"]["arguments"] = "".join(pieces)
    return calls


def _joined_logprobs(choices: Sequence[Chunk]) -> list[Chunk]:
    return [item for c in choices for item in (c.get("logprobs") or {}).get("content", [])]


def _delta(index: int, delta: Chunk, reason: str | None = None) -> Chunk:
    return {"finish_reason": reason, "index": index, "delta": delta}


def _progress(step: Prefill) -> Chunk:
    return {"total": step.total, "cache": step.cached, "processed": step.done}


def _logprob_item(item: TokenLogprobs, top: int) -> Chunk:
    rivals = [_logprob_body(prob) for prob in item.top[:top]]
    return {**_logprob_body(item.chosen), "top_logprobs": rivals}


def _prob_item(item: TokenLogprobs, top: int) -> Chunk:
    rivals = [_prob_body(prob) for prob in item.top[:top]]
    return {**_prob_body(item.chosen), "top_probs": rivals}


def _logprob_body(prob: TokenProb) -> Chunk:
    return {**_token_body(prob), "logprob": prob.logprob}


def _prob_body(prob: TokenProb) -> Chunk:
    return {**_token_body(prob), "prob": min(1.0, math.exp(prob.logprob))}


def _token_body(prob: TokenProb) -> Chunk:
    data = bytes(prob.token_bytes)
    return {"id": prob.token_id, "token": data.decode("utf-8", "ignore"), "bytes": list(data)}


def _finite(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else 0.0


def _ratio(value: float, by: float) -> float:
    return _finite(value / by) if by > 0 else 0.0
