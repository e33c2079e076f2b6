"""The recorded requests: a file a client, made by `record.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
# Where the messages of a family's requests are.
MESSAGES = ("messages", "input")


@dataclass(frozen=True)
class Recorded:
    """One request of a client."""

    client: str
    number: int
    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None

    @property
    def route(self) -> str:
        """The path without what is behind the question mark."""
        return self.path.partition("?")[0]

    @property
    def fields(self) -> dict[str, Any]:
        """The body, nothing if there was none."""
        return self.body or {}

    @property
    def is_stream(self) -> bool:
        """Whether the answer comes in pieces, which is Ollama's habit."""
        return bool(self.fields.get("stream", self.route in ("/api/chat", "/api/generate")))

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """Messages, or items."""
        found = next((self.fields[name] for name in MESSAGES if name in self.fields), None)
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    @cached_property
    def thoughts(self) -> list[str]:
        """Thoughts in the history, in their order."""
        return [text for message in self.messages for text in _thoughts(message) if text]

    @property
    def has_form(self) -> bool:
        """Whether the answer has to be in a form."""
        forms = (
            self.fields.get("response_format"),
            self.fields.get("format"),
            (self.fields.get("text") or {}).get("format"),
            (self.fields.get("output_config") or {}).get("format"),
        )
        return any(form not in (None, {"type": "text"}) for form in forms)

    @property
    def traits(self) -> set[str]:
        """What this request is an example of: its route, and how it is asked."""
        stream = "stream" if self.is_stream else "whole"
        kinds = {"messages": "chat", "prompt": "text", "documents": "scores", "input": "vectors"}
        kind = next((kinds[name] for name in kinds if name in self.fields), "")
        if self.route.endswith("/responses"):
            kind = "responses"
        if kind not in ("chat", "text", "responses"):
            return {self.route, kind} - {""}
        found = {self.route, kind, f"{kind} {stream}"}
        found |= {f"tools {stream}"} if self.fields.get("tools") else set()
        found |= {"results"} if any(_is_result(each) for each in self.messages) else set()
        found |= {"form"} if self.has_form else set()
        return found | ({"thoughts"} if self.thoughts else set())

    def __str__(self) -> str:
        return f"{self.client}-{self.number}-{self.route}"


def recorded() -> Iterator[Recorded]:
    """All of them."""
    for path in sorted(FOLDER.glob("*.json")):
        requests = json.loads(path.read_text("utf-8"))["requests"]
        for number, request in enumerate(requests):
            yield Recorded(path.stem, number, **request)


def _thoughts(message: dict[str, Any]) -> list[str]:
    """What an answer of before had thought, in the words of each family."""
    if message.get("type") == "reasoning":
        parts = [*(message.get("summary") or []), *(message.get("content") or [])]
        return ["".join(part.get("text", "") for part in parts)]
    if message.get("role") != "assistant":
        return []
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    inside = [block.get("thinking", "") for block in blocks if block.get("type") == "thinking"]
    return [message.get("reasoning_content") or message.get("thinking") or "", *inside]


def _is_result(message: dict[str, Any]) -> bool:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return (
        message.get("role") == "tool"
        or str(message.get("type")).endswith("call_output")
        or any(isinstance(b, dict) and b.get("type") == "tool_result" for b in blocks)
    )
