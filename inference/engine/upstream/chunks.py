"""The chunks of an answer, folded into events. What a server sends is checked, never believed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inference.engine.upstream.events import UnreadableError
from inference.engine.upstream.request import CHAT_PATH
from inference.engine.upstream.tokens import estimated_tokens
from inference.protocol.events import (
    CallRef,
    Delta,
    DeltaKind,
    Event,
    FinishReason,
    Progress,
    Started,
    TokenLogprobs,
    TokenProb,
    Usage,
)
from inference.text.prompts import valid_text
from llamaweb.lib.ids import new_id

DONE = "[DONE]"
MAX_TEXT_CHARS = 8 * 1024 * 1024  # of one answer, tool calls included
MAX_TOOL_CALLS = 128
MAX_TOKENS = 2**31 - 1
UNKNOWN_TOKEN = -1  # the id of a token that was told without
LEAST_LOGPROB = -1e9
REASONS: Mapping[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}  # all others: it ended by itself


class ToldError(Exception):
    """The server says within the answer that it failed. `error`: its error object."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__("the server says that it failed")
        self.error = error


@dataclass(slots=True)
class _Call:
    """A tool call on its way."""

    id: str = ""
    name: str = ""
    arguments: str = ""


class AnswerReader:
    """Folds one answer. `reason`: why it ended, None while it hasn't; `usage` as last told.

    `num_pieces`: how many deltas there were. `is_done`: nothing more comes. `is_filtered`: the
    server's content filter ended it.
    """

    def __init__(self, path: str) -> None:
        self.reason: FinishReason | None = None
        self.usage: Usage | None = None
        self.num_pieces = 0
        self.is_done = False
        self.is_filtered = False
        self._is_chat = path == CHAT_PATH
        self._has_begun = False
        self._num_chars = 0
        self._num_tokens = 0  # estimated
        self._calls: dict[int, _Call] = {}

    @property
    def has_text(self) -> bool:
        """Whether a reader has seen something of it."""
        return self.num_pieces > 0

    @property
    def estimated_tokens(self) -> int:
        """Most servers send a token a delta, others many."""
        return max(self.num_pieces, self._num_tokens)

    def feed(self, data: str) -> list[Event]:
        """The events of one chunk.

        Raises:
            UnreadableError: it isn't one, or the answer is longer than any may be.
            ToldError: see there.
        """
        if data.strip() == DONE:
            self.is_done = True
            return []
        chunk = _object(data)
        if isinstance(error := chunk.get("error"), dict | str):
            raise ToldError(error if isinstance(error, dict) else {})
        if "message" in chunk and "code" in chunk and "choices" not in chunk:
            raise ToldError(chunk)
        if isinstance(usage := chunk.get("usage"), dict):
            self.usage = usage_of(usage)
        events = self._progress(chunk.get("prompt_progress"))
        for choice in _list(chunk.get("choices")):
            if not isinstance(choice, dict):
                raise UnreadableError("a choice is no object")
            if choice.get("index", 0) == 0:
                events += self._choice(choice)
        if not self._has_begun and not events:
            events = [Started(0, 0)]
        self._has_begun = True
        return events

    def end(self) -> list[Event]:
        """What was held back until the end: whole tool calls; one without a name is none."""
        calls, self._calls = self._calls, {}
        named = [call for _, call in sorted(calls.items()) if call.name]
        return [_call_delta(index, call) for index, call in enumerate(named)]

    def _progress(self, told: Any) -> list[Event]:
        """How far llama-server has read the prompt."""
        begin: list[Event] = []
        if isinstance(told, dict):
            total, done = _count(told.get("total")), _count(told.get("processed"))
            if not self._has_begun:
                begin = [Started(total, min(total, _count(told.get("cache"))))]
            return [*begin, Progress(min(done, total), total)]
        return begin

    def _choice(self, choice: Mapping[str, Any]) -> list[Event]:
        events: list[Event] = [] if self._has_begun else [Started(0, 0)]
        logprobs = _logprobs(choice.get("logprobs"))
        delta = choice.get("delta") if self._is_chat else choice
        if isinstance(delta, dict):
            if self._is_chat:
                reasoning = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
                events += self._piece("reasoning", reasoning, ())
                content = _text(delta.get("content")) + _text(delta.get("refusal"))
                self._tool_calls(_list(delta.get("tool_calls")))
            else:
                content = _text(delta.get("text"))
            events += self._piece("content", content, logprobs)
        if (told := choice.get("finish_reason")) is not None:
            self._finish(told)
        return events

    def _piece(
        self, kind: DeltaKind, text: str, logprobs: tuple[TokenLogprobs, ...]
    ) -> list[Event]:
        if not text and not logprobs:
            return []
        self._grow(text)
        self.num_pieces += 1
        return [Delta(text, (), kind=kind, logprobs=logprobs)]

    def _finish(self, told: Any) -> None:
        if told == "content_filter":
            self.is_filtered = True
        reason = REASONS.get(told, "stop") if isinstance(told, str) else "stop"
        if reason != "length":  # servers say one or the other, whatever they wrote
            reason = "tool_calls" if any(call.name for call in self._calls.values()) else "stop"
        self.reason = reason

    def _tool_calls(self, deltas: list[Any]) -> None:
        for position, delta in enumerate(deltas):
            if not isinstance(delta, dict):
                raise UnreadableError("a tool call is no object")
            index = delta.get("index", position)
            if type(index) is not int or not 0 <= index < MAX_TOOL_CALLS:
                raise UnreadableError(f"a tool call isn't one of the first {MAX_TOOL_CALLS}")
            call = self._calls.setdefault(index, _Call())
            function = delta.get("function")
            function = function if isinstance(function, dict) else {}
            arguments = _text(function.get("arguments"))
            self._grow(arguments)
            call.id = call.id or _text(delta.get("id"))
            call.name = call.name or _text(function.get("name"))
            call.arguments += arguments

    def _grow(self, text: str) -> None:
        self._num_chars += len(text)
        self._num_tokens += estimated_tokens(text)
        if self._num_chars > MAX_TEXT_CHARS:
            raise UnreadableError(f"the answer has more than {MAX_TEXT_CHARS:,} characters")


def _call_delta(index: int, call: _Call) -> Delta:
    try:
        is_whole = isinstance(json.loads(call.arguments or "{}"), dict)
    except (ValueError, RecursionError):
        is_whole = False
    ref = CallRef(
        index, call.id or new_id("call_"), call.name, "complete" if is_whole else "broken"
    )
    return Delta(call.arguments or "{}", (), kind="tool_call", call=ref)


def usage_of(told: Mapping[str, Any]) -> Usage:
    """`usage` of the wire; what is no number counts as 0."""
    details = told.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    prompt = _count(told.get("prompt_tokens"))
    return Usage(prompt, _count(told.get("completion_tokens")), min(prompt, cached))


def _object(data: str) -> dict[str, Any]:
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError):
        raise UnreadableError("a chunk is no JSON") from None
    if not isinstance(chunk, dict):
        raise UnreadableError("a chunk is no object")
    return chunk


def _logprobs(told: Any) -> tuple[TokenLogprobs, ...]:
    """Of a chunk's tokens; llama-server also says probabilities, of what its samplers left."""
    content = told.get("content") if isinstance(told, dict) else None
    out = []
    for item in _list(content):
        if not isinstance(item, dict):
            raise UnreadableError("a log probability is no object")
        rivals = _list(item.get("top_logprobs")) or _list(item.get("top_probs"))
        out.append(TokenLogprobs(_prob(item), tuple(map(_prob, rivals))))
    return tuple(out)


def _prob(item: Any) -> TokenProb:
    if not isinstance(item, dict):
        raise UnreadableError("a log probability is no object")
    token_id, logprob, prob = item.get("id"), item.get("logprob"), item.get("prob")
    if isinstance(prob, int | float) and logprob is None:
        logprob = math.log(prob) if prob > 0 else LEAST_LOGPROB
    if not isinstance(logprob, int | float) or not math.isfinite(logprob):
        raise UnreadableError("a log probability is no number")
    data = item.get("bytes")
    if not isinstance(data, list) or not all(type(b) is int and 0 <= b < 256 for b in data):
        data = list(_text(item.get("token")).encode())
    known = token_id if type(token_id) is int and 0 <= token_id <= MAX_TOKENS else UNKNOWN_TOKEN
    return TokenProb(known, tuple(data), max(LEAST_LOGPROB, float(logprob)))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return valid_text(value) if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return min(MAX_TOKENS, max(0, value)) if type(value) is int else 0
