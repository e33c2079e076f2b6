"""Steps of a generation to the events of a message. Pure: no clock, no ids of its own.

The whole message is made from the events of the stream, so the two can't differ.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any, ClassVar

from inference.edge.anthropic.errors import anthropic_reply
from inference.edge.anthropic.options import options_from_json
from inference.edge.steps import Begin, End, Piece, Step
from inference.edge.wire import Encoding, Frame, ServerSentEvents
from inference.protocol.events import Usage
from inference.protocol.requests import GenerateRequest
from llamaweb.lib.errors import LlamawebError

STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


class MessageEvents(ServerSentEvents):
    """See `Encoding`; silence is an event, too."""

    silence: ClassVar = b'event: ping\ndata: {"type": "ping"}\n\n'


class MessageWire:
    """See `Wire`; one message a generation."""

    encoding: ClassVar[Encoding] = MessageEvents()
    tail: ClassVar = b""

    def __init__(self, request: GenerateRequest) -> None:
        self._reply = request.reply
        self._options = options_from_json(request.reply.options_json)
        self._has_begun = False
        self._block: _Block | None = None
        self._num_blocks = 0

    @property
    def places(self) -> Sequence[str]:
        """See `Wire`."""
        return self._options.places

    @property
    def is_silent(self) -> bool:
        """See `Wire`."""
        return False

    def render(self, index: int, step: Step) -> list[Frame]:
        """See `Wire`."""
        if isinstance(step, Begin):
            return self._begin(Usage(step.prompt_tokens, 0, step.cached_tokens))
        if isinstance(step, Piece):
            return [*self._begin(Usage()), *self._piece(step)]
        if isinstance(step, End):
            return [*self._begin(step.usage), *self._close(), *_ended(step)]
        return []

    def end(self) -> list[Frame]:
        """See `Wire`; the last events come with the end of the generation."""
        return []

    def error(self, error: LlamawebError) -> list[Frame]:
        """See `Wire`."""
        return [Frame(anthropic_reply(error).body, "error")]

    def whole(self, frames: Sequence[Frame]) -> dict[str, Any]:
        """See `Wire`."""
        return joined([frame.data for frame in frames])

    def _begin(self, usage: Usage) -> list[Frame]:
        """The message that all other events are about, once."""
        if self._has_begun:
            return []
        self._has_begun = True
        message: dict[str, Any] = {
            "id": self._reply.reply_id,
            "type": "message",
            "role": "assistant",
            "model": self._reply.model_name,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_body(Usage(usage.prompt_tokens, 0, usage.cached_tokens)),
        }
        if self._options.warnings:
            message["warnings"] = list(self._options.warnings)
        return [_frame("message_start", message=message)]

    def _piece(self, piece: Piece) -> list[Frame]:
        frames: list[Frame] = []
        call = piece.call
        number = call.index if call is not None else -1
        if self._block is None or (self._block.kind, self._block.call) != (piece.kind, number):
            frames += [*self._close(), *self._open(piece, number)]
        if piece.text:
            frames += self._more(piece.text)
        if call is not None and call.end is not None:
            frames += self._close()
        return frames

    def _open(self, piece: Piece, number: int) -> list[Frame]:
        block = self._block = _Block(self._num_blocks, piece.kind, number)
        self._num_blocks += 1
        started: dict[str, Any] = {"type": "text", "text": ""}
        if piece.kind == "reasoning":
            started = {"type": "thinking", "thinking": "", "signature": ""}
        elif piece.call is not None:
            started = {"type": "tool_use", "id": piece.call.id, "name": piece.call.name}
            started["input"] = {}
        return [_frame("content_block_start", index=block.index, content_block=started)]

    def _more(self, text: str) -> list[Frame]:
        block = self._block
        assert block is not None
        if block.kind == "reasoning":
            block.digest.update(text.encode())
            if self._options.hides_thinking:
                return []
        kind, field = _DELTAS[block.kind]
        return [_delta(block.index, {"type": kind, field: text})]

    def _close(self) -> list[Frame]:
        block, self._block = self._block, None
        if block is None:
            return []
        frames = [_frame("content_block_stop", index=block.index)]
        if block.kind == "reasoning":
            # Means nothing here, but some clients throw away thoughts that nobody signed.
            signature = base64.b64encode(block.digest.digest()).decode()
            signed = _delta(block.index, {"type": "signature_delta", "signature": signature})
            frames.insert(0, signed)
        return frames


class _Block:
    """The content block that pieces go to; `call`: which call of the answer it is, or -1."""

    def __init__(self, index: int, kind: str, call: int) -> None:
        self.index = index
        self.kind = kind
        self.call = call
        self.digest = hashlib.sha256()


_DELTAS = {
    "content": ("text_delta", "text"),
    "reasoning": ("thinking_delta", "thinking"),
    "tool_call": ("input_json_delta", "partial_json"),
}


def usage_body(usage: Usage) -> dict[str, int]:
    """`usage` on the wire: the three numbers of the prompt's tokens add up to its length."""
    return {
        "input_tokens": max(0, usage.prompt_tokens - usage.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    }


def joined(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The message that a complete stream's events tell, as clients join them."""
    message: dict[str, Any] = {}
    blocks: list[dict[str, Any]] = []
    texts: dict[tuple[int, str], list[str]] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                message = dict(event["message"])
            case "content_block_start":
                blocks.append(dict(event["content_block"]))
            case "content_block_delta":
                (field,) = event["delta"].keys() - {"type"}
                texts.setdefault((event["index"], field), []).append(event["delta"][field])
            case "message_delta":
                message |= {**event["delta"], "usage": event["usage"]}
    for (index, field), pieces in texts.items():
        text = "".join(pieces)
        blocks[index] |= {"input": _object(text)} if field == "partial_json" else {field: text}
    return {**message, "content": blocks}


def _object(text: str) -> dict[str, Any]:
    """The arguments of a call; of one that was cut, none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _ended(end: End) -> list[Frame]:
    reason = STOP_REASONS[end.reason]
    stop = end.stop_string if end.reason == "stop" else None
    if stop is not None:
        reason = "stop_sequence"
    delta = {"stop_reason": reason, "stop_sequence": stop}
    return [
        _frame("message_delta", delta=delta, usage=usage_body(end.usage)),
        _frame("message_stop"),
    ]


def _delta(index: int, delta: dict[str, str]) -> Frame:
    return _frame("content_block_delta", index=index, delta=delta)


def _frame(name: str, **fields: Any) -> Frame:
    return Frame({"type": name, **fields}, name)
