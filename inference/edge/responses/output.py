"""The items of a response while they are written: what each event about them says. Pure.

Every item tells `added`, then its deltas, then `done`; an event is a name and its fields.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeAlias

from inference.edge.responses.calls import ToolRef, text_given
from inference.protocol.events import CallRef

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # the database stores no NUL

Said: TypeAlias = tuple[str, dict[str, Any]]


class OutputItem(Protocol):
    """One item of the output; `index`: its place there."""

    index: int

    def added(self) -> list[Said]:
        """It begins."""
        ...

    def delta(self, text: str, logprobs: list[dict[str, Any]]) -> list[Said]:
        """It goes on with `text`, which isn't empty."""
        ...

    def done(self, status: str) -> list[Said]:
        """It ends, "completed" or "incomplete"."""
        ...

    def body(self, status: str) -> dict[str, Any]:
        """The item as far as it is written."""
        ...


class _PartItem:
    """An item that is one part of text. `event`: how the events of its text are called."""

    kind: ClassVar[str]
    event: ClassVar[str]
    part_event: ClassVar[str] = "response.content_part"
    place: ClassVar[str] = "content_index"

    def __init__(self, item_id: str, index: int) -> None:
        self.index = index
        self._id = item_id
        self._texts: list[str] = []
        self._logprobs: list[dict[str, Any]] = []

    def added(self) -> list[Said]:
        """See `OutputItem`."""
        item = {"output_index": self.index, "item": self._empty()}
        part = {**self._at, "part": self._part("", [])}
        return [("response.output_item.added", item), (f"{self.part_event}.added", part)]

    def delta(self, text: str, logprobs: list[dict[str, Any]]) -> list[Said]:
        """See `OutputItem`."""
        self._texts.append(text)
        self._logprobs += logprobs
        return [(f"{self.event}.delta", {**self._at, "delta": text, **self._probs(logprobs)})]

    def done(self, status: str) -> list[Said]:
        """See `OutputItem`."""
        text, probs = "".join(self._texts), self._logprobs
        return [
            (f"{self.event}.done", {**self._at, "text": text, **self._probs(probs)}),
            (f"{self.part_event}.done", {**self._at, "part": self._part(text, probs)}),
            ("response.output_item.done", {"output_index": self.index, "item": self.body(status)}),
        ]

    def body(self, status: str) -> dict[str, Any]:
        """See `OutputItem`."""
        part = self._part("".join(self._texts), self._logprobs)
        return {**self._empty(), self._holder: [part], "status": status}

    @property
    def _at(self) -> dict[str, Any]:
        return {"item_id": self._id, "output_index": self.index, self.place: 0}

    @property
    def _holder(self) -> str:
        return "content"

    def _empty(self) -> dict[str, Any]:
        return {"id": self._id, "type": self.kind, "status": "in_progress", "content": []}

    def _part(self, text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
        raise NotImplementedError

    def _probs(self, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
        return {}


class MessageItem(_PartItem):
    """Text for the reader."""

    kind = "message"
    event = "response.output_text"

    def _empty(self) -> dict[str, Any]:
        return {**super()._empty(), "role": "assistant"}

    def _part(self, text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}

    def _probs(self, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
        return {"logprobs": logprobs}


class ReasoningItem(_PartItem):
    """Thoughts, as they are."""

    kind = "reasoning"
    event = "response.reasoning_text"

    def _empty(self) -> dict[str, Any]:
        return {**super()._empty(), "summary": []}

    def _part(self, text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
        return {"type": "reasoning_text", "text": text}


class SummaryItem(ReasoningItem):
    """Thoughts where clients look for a summary of them."""

    event = "response.reasoning_summary_text"
    part_event = "response.reasoning_summary_part"
    place = "summary_index"

    @property
    def _holder(self) -> str:
        return "summary"

    def _part(self, text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
        return {"type": "summary_text", "text": text}


class CallItem:
    """A function that the client is to call."""

    kind: ClassVar[str] = "function_call"
    event: ClassVar[str] = "response.function_call_arguments"

    def __init__(self, item_id: str, index: int, call: CallRef, tool: ToolRef) -> None:
        self.index = index
        self.call_index = call.index
        self.is_whole = False
        self._id = item_id
        self._call = call
        self._tool = tool
        self._texts: list[str] = []

    def added(self) -> list[Said]:
        """See `OutputItem`."""
        item = self.body("in_progress")
        return [("response.output_item.added", {"output_index": self.index, "item": item})]

    def delta(self, text: str, logprobs: list[dict[str, Any]]) -> list[Said]:
        """See `OutputItem`."""
        self._texts.append(text)
        return [(f"{self.event}.delta", {**self._at, "delta": text})]

    def done(self, status: str) -> list[Said]:
        """See `OutputItem`; a call that was cut is incomplete, however the answer ended."""
        item = self.body("completed" if self.is_whole else "incomplete")
        said = {**self._at, "name": self._tool.name, "arguments": item["arguments"]}
        return [
            (f"{self.event}.done", said),
            ("response.output_item.done", {"output_index": self.index, "item": item}),
        ]

    def body(self, status: str) -> dict[str, Any]:
        """See `OutputItem`."""
        return {**self._head(status), "arguments": "".join(self._texts)}

    def _head(self, status: str) -> dict[str, Any]:
        tool = self._tool
        return {
            "id": self._id,
            "type": self.kind,
            "status": status,
            "call_id": self._call.id,
            **({"namespace": tool.namespace} if tool.namespace else {}),
            "name": tool.name,
        }

    @property
    def _at(self) -> dict[str, Any]:
        return {"item_id": self._id, "output_index": self.index}


class CustomCallItem(CallItem):
    """A tool that the client is to give text; it is told at once, when it is known whole."""

    kind = "custom_tool_call"
    event = "response.custom_tool_call_input"

    def delta(self, text: str, logprobs: list[dict[str, Any]]) -> list[Said]:
        """See `OutputItem`; nothing is told yet."""
        self._texts.append(text)
        return []

    def done(self, status: str) -> list[Said]:
        """See `CallItem`; one that was cut has no text."""
        item = self.body("completed" if self.is_whole else "incomplete")
        text = item["input"]
        deltas = [(f"{self.event}.delta", {**self._at, "delta": text})] if text else []
        return [
            *deltas,
            (f"{self.event}.done", {**self._at, "input": text}),
            ("response.output_item.done", {"output_index": self.index, "item": item}),
        ]

    def body(self, status: str) -> dict[str, Any]:
        """See `OutputItem`."""
        text = text_given("".join(self._texts)) if self.is_whole else ""
        # The escape of a NUL is one only now, and nothing that is kept may have it.
        return {**self._head(status), "input": text.replace("\0", REPLACEMENT)}
