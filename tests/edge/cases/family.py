"""What API families have in common as the cases see them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tests.edge.cases.said import Ask, Refusal, Reply, Stream, Tool, field_in, put


class Family(ABC):
    """How one says a request and reads what comes. Paths are those of fields, as in errors."""

    name: ClassVar[str]
    path: ClassVar[str]
    content_type: ClassVar[str] = "text/event-stream"
    prompt: ClassVar[str] = "messages"
    length: ClassVar[str] = "max_tokens"
    stop: ClassVar[str] = "stop"
    temperature: ClassVar[str] = "temperature"
    seed: ClassVar[str | None] = "seed"
    schema: ClassVar[str]  # of an answer
    tool_schema: ClassVar[str] = "tools[{}].function.parameters"
    nullable: ClassVar[Sequence[str]] = ()  # more fields that may be null
    always: ClassVar[Mapping[str, Any]] = {}
    streamed: ClassVar[Mapping[str, Any]] = {}  # more fields of a request for a stream

    def body(self, ask: Ask, *, stream: bool = False) -> dict[str, Any]:
        """A request, picked greedily."""
        body: dict[str, Any] = {**self.always, "stream": stream}
        if stream:
            body |= self.streamed
        body[self.prompt] = self.said(ask)
        put(body, self.temperature, 0)
        for path, value in ((self.length, ask.length), (self.stop, ask.stop)):
            if value is not None:
                put(body, path, value)
        if ask.schema is not None:
            self.in_form(body, ask.schema)
        if ask.tools is not None:
            body["tools"] = [self.tool(tool) for tool in ask.tools]
        if ask.choice is not None:
            body["tool_choice"] = self.choice(ask.choice)
        return body

    @abstractmethod
    def said(self, ask: Ask) -> Any:
        """What stands in the field `prompt`."""

    @abstractmethod
    def in_form(self, body: dict[str, Any], schema: Mapping[str, Any]) -> None:
        """Let the answer follow `schema`."""

    def tool(self, tool: Tool) -> dict[str, Any]:
        """A definition."""
        function: dict[str, Any] = {"name": tool.name}
        if tool.schema:
            function["parameters"] = tool.schema
        if tool.strict:
            function["strict"] = True
        return {"type": "function", "function": function}

    def choice(self, choice: str) -> Any:
        """That a call has to be made."""
        if choice == "required":
            return choice
        return {"type": "function", "function": {"name": choice}}

    @abstractmethod
    def reply(self, body: Any) -> Reply:
        """What a whole answer says."""

    @abstractmethod
    def read(self, raw: bytes) -> Stream:
        """What a stream says, read as strictly as clients do."""

    def refusal(self, body: Any) -> Refusal:
        """What an error says."""
        error = body["error"]
        return Refusal(error["message"], error["type"], error["param"], error["code"])

    def __str__(self) -> str:
        return self.name


def said_error(error: Mapping[str, Any]) -> Refusal:
    """An error whose field stands in front of its message."""
    return Refusal(error["message"], error["type"], field_in(error["message"]))
