"""Steps of a generation to the events and the object of a response. Pure: no clock.

Events are numbered from 0, and a stream that is taken up again behind one of them is the rest of
the same events: whoever renders it begins with the first step and leaves out what was told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from inference.edge.errors import error_reply
from inference.edge.responses.calls import ToolRef
from inference.edge.responses.ids import ItemPlace, item_id
from inference.edge.responses.options import ResponseOptions, options_from_json
from inference.edge.responses.output import (
    REPLACEMENT,
    CallItem,
    CustomCallItem,
    MessageItem,
    OutputItem,
    ReasoningItem,
    Said,
    SummaryItem,
)
from inference.edge.steps import End, Piece, Step
from inference.edge.wire import Encoding, Frame, ServerSentEvents
from inference.protocol.events import TokenLogprobs, TokenProb, Usage
from inference.protocol.requests import ReplyInfo
from llamaweb.lib.errors import (
    BusyError,
    InvalidError,
    LlamawebError,
    StoppedError,
    TooLongError,
)

MS_PER_S = 1000
# The first class that fits decides; anything else is our fault.
ERROR_CODES: tuple[tuple[type[LlamawebError], str], ...] = (
    (TooLongError, "context_length_exceeded"),
    (InvalidError, "invalid_prompt"),
    (BusyError, "rate_limit_exceeded"),
)


class NumberedEvents(ServerSentEvents):
    """Server-sent events whose ids are the numbers that readers come back with."""

    def frame(self, frame: Frame, event_id: str | None) -> bytes:
        """See `Encoding`."""
        return super().frame(frame, str(frame.data["sequence_number"]))


class ResponsesWire:
    """See `Wire`. `after`: the number of the last event that isn't told again."""

    encoding: ClassVar[Encoding] = NumberedEvents()
    tail: ClassVar = b""

    def __init__(self, reply: ReplyInfo, *, after: int = -1) -> None:
        self.options: ResponseOptions = options_from_json(reply.options_json)
        self._reply = reply
        self._after = after
        self._next = 0
        self._items: list[tuple[OutputItem, str]] = []  # ended ones, with their status
        self._open: OutputItem | None = None
        self._reasoning_tokens = 0

    @property
    def places(self) -> Sequence[str]:
        """See `Wire`."""
        return self.options.places

    @property
    def is_silent(self) -> bool:
        """See `Wire`."""
        return False

    def render(self, index: int, step: Step) -> list[Frame]:
        """See `Wire`."""
        return self._numbered([*self._begin(), *self._said(step)])

    def end(self) -> list[Frame]:
        """See `Wire`."""
        return []

    def error(self, error: LlamawebError) -> list[Frame]:
        """See `Wire`: what was cancelled is incomplete, all else has failed."""
        said = [*self._begin(), *self._close("incomplete")]
        if isinstance(error, StoppedError):
            said.append(("response.incomplete", {"response": self.body("cancelled")}))
        else:
            failed = self.body("failed", error=error_body(error))
            said.append(("response.failed", {"response": failed}))
        return self._numbered(said)

    def whole(self, frames: Sequence[Frame]) -> dict[str, Any]:
        """See `Wire`: the last event has it."""
        body: dict[str, Any] = frames[-1].data["response"]
        return body

    def body(self, status: str, **more: Any) -> dict[str, Any]:
        """The response as far as it is told."""
        output = [item.body(item_status) for item, item_status in self._items]
        return {
            "id": self._reply.reply_id,
            "object": "response",
            "created_at": self._reply.created_at,
            "status": status,
            "model": self._reply.model_name,
            "output": output,
            "error": None,
            "incomplete_details": None,
            "usage": None,
            "background": self.options.is_background,
            **self.options.shown,
            **more,
        }

    def _said(self, step: Step) -> Iterator[Said]:
        if isinstance(step, Piece):
            yield from self._piece(step)
        elif isinstance(step, End):
            yield from self._end(step)

    def _begin(self) -> list[Said]:
        """What stands in front of all others, once."""
        if self._next:
            return []
        said: list[Said] = []
        if self.options.is_background:
            queued = {"response": self.body("queued")}
            said = [("response.created", queued), ("response.queued", queued)]
        running = {"response": self.body("in_progress")}
        said = said or [("response.created", running)]
        return [*said, ("response.in_progress", running)]

    def _piece(self, piece: Piece) -> Iterator[Said]:
        if piece.kind == "reasoning":
            self._reasoning_tokens += len(piece.token_ids)
        if not self._goes_on(piece):
            yield from self._close("completed")
            yield from self._open_for(piece)
        item = self._open
        if item is None or isinstance(item, CallItem) != (piece.kind == "tool_call"):
            return  # what is left of a call that ended before
        if piece.text:
            text = piece.text.replace("\0", REPLACEMENT)
            yield from item.delta(text, self._logprobs(piece.logprobs))
        if isinstance(item, CallItem) and piece.call is not None and piece.call.end is not None:
            item.is_whole = piece.call.end == "complete"
            yield from self._close("completed")

    def _goes_on(self, piece: Piece) -> bool:
        """Whether the item that is open takes the piece, or there is nothing to open."""
        if piece.kind == "tool_call":
            call = piece.call
            return call is None or not call.id
        kind = MessageItem if piece.kind == "content" else ReasoningItem
        return isinstance(self._open, kind)

    def _open_for(self, piece: Piece) -> list[Said]:
        """A new item."""
        index = len(self._items)
        place = ItemPlace(self._reply.reply_id, is_input=False, index=index)
        if piece.kind == "tool_call" and piece.call is not None:
            tool = self.options.tools.get(piece.call.name, ToolRef(piece.call.name))
            call_kind = CustomCallItem if tool.is_custom else CallItem
            self._open = call_kind(item_id(call_kind.kind, place), index, piece.call, tool)
        elif piece.kind == "content":
            self._open = MessageItem(item_id("message", place), index)
        else:
            kind = SummaryItem if self.options.with_summary else ReasoningItem
            self._open = kind(item_id("reasoning", place), index)
        return self._open.added()

    def _close(self, status: str) -> list[Said]:
        """The end of the open item, if there is one."""
        item, self._open = self._open, None
        if item is None:
            return []
        if isinstance(item, CallItem):
            status = "completed" if item.is_whole else "incomplete"
        self._items.append((item, status))
        return item.done(status)

    def _end(self, step: End) -> Iterator[Said]:
        usage = _usage_body(step.usage, min(self._reasoning_tokens, step.usage.completion_tokens))
        if step.reason == "length":
            yield from self._close("incomplete")
            details = {"reason": "max_output_tokens"}
            body = self.body("incomplete", incomplete_details=details, usage=usage)
            yield "response.incomplete", {"response": body}
            return
        yield from self._close("completed")
        took = step.timings
        took_s = (took.queued_ms + took.prefill_ms + took.decode_ms) / MS_PER_S
        body = self.body(
            "completed", usage=usage, completed_at=self._reply.created_at + round(took_s)
        )
        yield "response.completed", {"response": body}

    def _logprobs(self, logprobs: Sequence[TokenLogprobs]) -> list[dict[str, Any]]:
        if not self.options.logprobs:
            return []
        return [
            {
                **_prob_body(item.chosen),
                "top_logprobs": [_prob_body(prob) for prob in item.top[: self.options.top]],
            }
            for item in logprobs
        ]

    def _numbered(self, said: Sequence[Said]) -> list[Frame]:
        """Frames of what wasn't told before."""
        frames = []
        for name, fields in said:
            if self._next > self._after:
                data = {"type": name, "sequence_number": self._next, **fields}
                frames.append(Frame(data, name))
            self._next += 1
        return frames


def error_body(error: LlamawebError) -> dict[str, Any]:
    """`error` of a failed response."""
    code = next((code for kind, code in ERROR_CODES if isinstance(error, kind)), "server_error")
    return {"code": code, "message": error_reply(error).body["error"]["message"]}


def _usage_body(usage: Usage, reasoning_tokens: int) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": 0,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _prob_body(prob: TokenProb) -> dict[str, Any]:
    data = bytes(prob.token_bytes)
    token = data.decode("utf-8", "ignore")
    return {"token": token, "bytes": list(data), "logprob": prob.logprob}
