"""Steps of a generation to the wire shapes of the Ollama family. Pure: no clock, no ids of its own.

The whole reply is made from the chunks of the stream, so the two can't differ.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

from inference.edge.measures import token_text
from inference.edge.ollama.errors import ollama_reply
from inference.edge.ollama.options import ReplyKind, ReplyOptions, options_from_json
from inference.edge.steps import End, Piece, Step
from inference.edge.wire import Encoding, Frame, JsonLines
from inference.protocol.events import CallRef, TokenLogprobs, TokenProb
from inference.protocol.requests import GenerateRequest, ReplyInfo
from llamaweb.lib.errors import LlamawebError

Chunk: TypeAlias = dict[str, Any]
NS_PER_MS: Final = 1_000_000
# An answer that calls tools ends as any other there.
DONE_REASONS: Final = {"stop": "stop", "length": "length", "tool_calls": "stop"}


@dataclass(slots=True)
class _Call:
    """A tool call that isn't complete yet."""

    ref: CallRef
    arguments: list[str] = field(default_factory=list)


class OllamaWire:
    """See `Wire`; of one generation."""

    encoding: ClassVar[Encoding] = JsonLines()
    tail: ClassVar = b""
    places: ClassVar = ()

    def __init__(self, request: GenerateRequest) -> None:
        self._reply = request.reply
        self._options: ReplyOptions = options_from_json(request.reply.options_json)
        self._call: _Call | None = None
        self._held: list[TokenLogprobs] = []

    @property
    def is_silent(self) -> bool:
        """See `Wire`."""
        return True

    def render(self, index: int, step: Step) -> list[Frame]:
        """See `Wire`. A call comes whole, as its arguments are no text here."""
        if isinstance(step, Piece):
            self._held += step.logprobs
            delta = self._call_delta(step) if step.kind == "tool_call" else _text_delta(step)
            return [] if delta is None else [self._frame(**delta)]
        if isinstance(step, End):
            self._held += step.logprobs
            rest = self._broken_call()
            return [*([] if rest is None else [self._frame(**rest)]), self._last(step)]
        return []

    def end(self) -> list[Frame]:
        """See `Wire`."""
        return []

    def error(self, error: LlamawebError) -> list[Frame]:
        """See `Wire`."""
        return [Frame(ollama_reply(error).body)]

    def whole(self, frames: Sequence[Frame]) -> Chunk:
        """See `Wire`."""
        chunks = [frame.data for frame in frames]
        last = {**chunks[-1]}
        logprobs = [item for chunk in chunks for item in chunk.get("logprobs", ())]
        if logprobs:
            last["logprobs"] = logprobs
        if self._options.kind == "chat":
            last["message"] = _joined([chunk["message"] for chunk in chunks], "content")
            return last
        return last | _joined(chunks, "response")

    def _call_delta(self, piece: Piece) -> Chunk | None:
        ref = piece.call
        if ref is not None and ref.id:
            self._call = _Call(ref)
        if self._call is None:
            return None
        self._call.arguments.append(piece.text)
        if ref is None or ref.end is None:
            return None
        if ref.end == "broken":
            return self._broken_call()
        arguments = _object("".join(self._call.arguments))
        if arguments is None:
            return self._broken_call()
        begun, self._call = self._call.ref, None
        function = {"index": begun.index, "name": begun.name, "arguments": arguments}
        return {"tool_calls": [{"id": begun.id, "function": function}]}

    def _broken_call(self) -> Chunk | None:
        """What was written of a call that nobody should run, as text."""
        if self._call is None:
            return None
        call, self._call = self._call, None
        text = f'{{"name": {json.dumps(call.ref.name)}, "arguments": {"".join(call.arguments)}'
        return {"content": text}

    def _frame(self, content: str = "", **more: Any) -> Frame:
        return Frame(self._chunk(content, more, done=False))

    def _last(self, end: End) -> Frame:
        timings, usage = end.timings, end.usage
        queued, prefill, decode = map(
            _ns, (timings.queued_ms, timings.prefill_ms, timings.decode_ms)
        )
        numbers = {
            "done_reason": DONE_REASONS[end.reason],
            "total_duration": queued + prefill + decode,
            "load_duration": queued,
            "prompt_eval_count": usage.prompt_tokens,
            "prompt_eval_duration": prefill,
            "eval_count": usage.completion_tokens,
            "eval_duration": decode,
        }
        return Frame({**self._chunk("", {}, done=True), **numbers})

    def _chunk(self, content: str, more: Chunk, *, done: bool) -> Chunk:
        out = {**envelope(self._reply), **said(self._options.kind, content, **more), "done": done}
        if self._options.logprobs and self._held:
            out["logprobs"] = [_logprob_item(item, self._options.top) for item in self._held]
            self._held = []
        return out


def envelope(reply: ReplyInfo) -> Chunk:
    """What all objects of one reply have in common."""
    return {"model": reply.model_name, "created_at": instant(reply.created_at)}


def said(kind: ReplyKind, content: str, **more: Any) -> Chunk:
    """Where a chunk has its text."""
    if kind == "chat":
        return {"message": {"role": "assistant", "content": content, **more}}
    return {"response": content, **more}


def kept_body(kind: ReplyKind, model: str, created_at: int, *, unload: bool) -> Chunk:
    """The whole reply to a request that only loads or unloads."""
    reply = ReplyInfo(created_at=created_at, model_name=model)
    done = {"done": True, "done_reason": "unload" if unload else "load"}
    return {**envelope(reply), **said(kind, ""), **done}


def instant(seconds: int) -> str:
    """Seconds since the epoch in RFC 3339."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text_delta(piece: Piece) -> Chunk:
    return {"thinking": piece.text} if piece.kind == "reasoning" else {"content": piece.text}


def _joined(chunks: Sequence[Chunk], name: str) -> Chunk:
    """The texts and calls of deltas."""
    out: Chunk = {"role": "assistant"} if name == "content" else {}
    out[name] = "".join(chunk[name] for chunk in chunks)
    if thinking := "".join(chunk.get("thinking", "") for chunk in chunks):
        out["thinking"] = thinking
    if calls := [call for chunk in chunks for call in chunk.get("tool_calls", ())]:
        out["tool_calls"] = calls
    return out


def _object(text: str) -> Chunk | None:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _logprob_item(item: TokenLogprobs, top: int) -> Chunk:
    out = _prob_body(item.chosen)
    if top:
        out["top_logprobs"] = [_prob_body(prob) for prob in item.top[:top]]
    return out


def _prob_body(prob: TokenProb) -> Chunk:
    return {
        "token": token_text(prob),
        "logprob": prob.logprob,
        "bytes": list(prob.token_bytes),
    }


def _ns(milliseconds: float) -> int:
    is_time = math.isfinite(milliseconds) and milliseconds > 0
    return round(milliseconds * NS_PER_MS) if is_time else 0
