"""Steps of generations to the wire shapes of the OpenAI family. Pure: no clock, no ids of its own.

The whole reply is made from the chunks of the stream, so the two can't differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from inference.edge.measures import (
    TokenTimes,
    prob_items,
    progress_body,
    timings_body,
    token_text,
    usage_body,
)
from inference.edge.openai.options import ReplyOptions
from inference.edge.steps import Begin, End, Piece, Prefill, Step
from inference.protocol.events import TokenLogprobs, Usage
from inference.protocol.requests import ReplyInfo

Chunk: TypeAlias = dict[str, Any]


class ChoiceRenderer:
    """The chunks of one choice. `end` is its last step once it came."""

    def __init__(self, reply: ReplyInfo, options: ReplyOptions) -> None:
        self.reply = reply
        self.options = options
        self.end: End | None = None
        self._has_begun = False
        self._num_chars = 0  # said so far, of a text
        self._times = TokenTimes()

    def render(self, step: Step) -> list[Chunk]:
        """The chunks of a step; a Broken one has none, it becomes an error."""
        self._times.see(step)
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
            return [*self._role(), {**chunk, "prompt_progress": progress_body(step)}]
        if isinstance(step, Piece):
            delta = _piece_delta(step)
            if delta is None:
                return []
            choice = _delta(self._index, delta)
            self._add_logprobs(choice, step.logprobs)
            return [*self._role(), {**self._chunk(choice), **self._times.fields(step)}]
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
        if self._has_begun:
            return []
        self._has_begun = True
        chunks = [self._chunk(_delta(self._index, _ROLE_DELTA))]
        if self.options.echo:
            part = "reasoning_content" if self.options.echoes_reasoning else "content"
            chunks.append(self._chunk(_delta(self._index, {part: self.options.echo})))
        return chunks

    def _text(self, step: Step) -> list[Chunk]:
        if isinstance(step, Prefill) and self.options.return_progress:
            chunk = self._chunk(self._text_choice("", ()))
            return [{**chunk, "prompt_progress": progress_body(step)}]
        if isinstance(step, Piece):
            chunk = self._chunk(self._text_choice(step.text, step.logprobs))
            return [*self._echo(), {**chunk, **self._times.fields(step)}]
        if isinstance(step, End):
            echo = self._echo()
            chunk = self._chunk(self._text_choice("", step.logprobs, step.reason))
            if not self.options.include_usage:
                chunk["timings"] = timings_body(step.usage, step.timings)
            return [*echo, chunk]
        return []

    def _echo(self) -> list[Chunk]:
        """The chunk with the prompt, once, if the client wants it repeated."""
        if self._has_begun or not self.options.echo:
            return []
        self._has_begun = True
        return [self._chunk(self._text_choice(self.options.echo, ()))]

    def _text_choice(
        self, text: str, logprobs: Sequence[TokenLogprobs], reason: str | None = None
    ) -> Chunk:
        choice: Chunk = {"text": text, "index": self._index, "logprobs": None}
        self._add_logprobs(choice, logprobs)
        if choice["logprobs"] is not None and not self.options.post_sampling:
            choice["logprobs"] |= _legacy_logprobs(logprobs, self.options.top, self._num_chars)
        self._num_chars += len(text)
        choice["finish_reason"] = reason
        return choice

    def _add_logprobs(self, choice: Chunk, logprobs: Sequence[TokenLogprobs]) -> None:
        if self.options.logprobs and logprobs:
            is_after = self.options.post_sampling
            items = prob_items(logprobs, self.options.top, post_sampling=is_after)
            choice["logprobs"] = {"content": items}

    def _chunk(self, choice: Chunk) -> Chunk:
        chunk = envelope(self.reply, _CHUNK_OBJECTS[self.options.kind], [choice])
        if self.options.include_usage:
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
    if not first.options.include_usage or first.end is None:
        return None
    chunk = envelope(first.reply, _CHUNK_OBJECTS[first.options.kind], [])
    chunk["usage"] = usage_body(total_usage(choices))
    chunk["timings"] = timings_body(first.end.usage, first.end.timings)
    return chunk


def text_usage(choices: Sequence[ChoiceRenderer]) -> Chunk | None:
    """What the last chunk of all has of texts, unless the client asked for one of its own."""
    options = choices[0].options
    if options.kind != "text" or options.include_usage or any(c.end is None for c in choices):
        return None
    return usage_body(total_usage(choices))


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
        out["logprobs"] = _joined_logprobs(mine)
    return out


def _join_text(choice: ChoiceRenderer, chunks: Sequence[Chunk]) -> Chunk:
    mine = _choices_of(choice, chunks)
    assert choice.end is not None
    return {
        "text": "".join(c["text"] for c in mine),
        "index": choice.options.index,
        "logprobs": _joined_logprobs(mine) if choice.options.logprobs else None,
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


def _joined_logprobs(choices: Sequence[Chunk]) -> Chunk:
    out: Chunk = {"content": []}
    for name, items in (pair for c in choices for pair in (c.get("logprobs") or {}).items()):
        out.setdefault(name, []).extend(items)
    return out


def _legacy_logprobs(items: Sequence[TokenLogprobs], top: int, num_chars: int) -> Chunk:
    """The same in the form that text completions had first; the first token stands behind
    `num_chars` characters of the answer."""
    texts = [token_text(item.chosen) for item in items]
    offsets = [num_chars + sum(map(len, texts[:index])) for index in range(len(texts))]
    return {
        "tokens": texts,
        "token_logprobs": [item.chosen.logprob for item in items],
        "top_logprobs": [
            {token_text(prob): prob.logprob for prob in reversed(item.top[:top])} for item in items
        ],
        "text_offset": offsets,
    }


def _delta(index: int, delta: Chunk, reason: str | None = None) -> Chunk:
    return {"finish_reason": reason, "index": index, "delta": delta}
