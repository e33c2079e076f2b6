"""Responses, and the families of Anthropic and Ollama."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from tests.edge.anthropic.wire import parse_events
from tests.edge.cases.family import Family, said_error
from tests.edge.cases.said import ENDS, Ask, End, Refusal, Reply, Stream, Tool, field_in, put
from tests.edge.ollama.lines import CHAT, GENERATE, joined, lines_of
from tests.edge.responses.events import events_of


class ResponsesFamily(Family):
    """POST /v1/responses, without keeping what it made."""

    name = "responses"
    path = "/v1/responses"
    prompt = "input"
    length = "max_output_tokens"
    schema = "text.format.schema"
    tool_schema = "tools[{}].parameters"
    nullable = ("top_p", "tools", "tool_choice", "text", "reasoning", "metadata", "instructions")
    always: ClassVar = {"store": False}

    def said(self, ask: Ask) -> Any:
        """See `Family.said`."""
        if ask.messages is None:
            return ask.text
        return [item for message in ask.messages for item in self._items(message)]

    def in_form(self, body: dict[str, Any], schema: Mapping[str, Any]) -> None:
        """See `Family.in_form`."""
        form = {"type": "json_schema", "name": "form", "schema": schema, "strict": True}
        put(body, "text.format", form)

    def tool(self, tool: Tool) -> dict[str, Any]:
        """See `Family.tool`."""
        return {"type": "function", **super().tool(tool)["function"]}

    def choice(self, choice: str) -> Any:
        """See `Family.choice`."""
        return choice if choice == "required" else {"type": "function", "name": choice}

    def reply(self, body: Any) -> Reply:
        """See `Family.reply`."""
        said: dict[str, list[Any]] = {"message": [], "reasoning": [], "function_call": []}
        for item in body["output"]:
            said[item["type"]].append(item)
        calls = tuple((call["name"], call["arguments"]) for call in said["function_call"])
        end: End = "tool_calls" if calls else "stop"
        if body["status"] == "incomplete":
            assert body["incomplete_details"] == {"reason": "max_output_tokens"}
            end = "length"
        usage = body["usage"]
        return Reply(
            _texts(said["message"]),
            end,
            _texts(said["reasoning"]),
            calls,
            prompt_tokens=usage["input_tokens"],
            completion_tokens=usage["output_tokens"],
            cached=usage["input_tokens_details"]["cached_tokens"],
        )

    def read(self, raw: bytes) -> Stream:
        """See `Family.read`."""
        events = events_of(raw)
        assert events.names[:2] == ["response.created", "response.in_progress"]
        text = events.joined("response.output_text.delta")
        error = events.response["error"]
        if error is not None:
            assert events.names[-1] == "response.failed"
            return Stream(events.data, text, error=Refusal(error["message"], error["code"]))
        return Stream(events.data, text, self.reply(events.response))

    def _items(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        if message["role"] == "tool":
            output = {"call_id": message["tool_call_id"], "output": message["content"]}
            return [{"type": "function_call_output", **output}]
        calls = [
            {"type": "function_call", "call_id": call["id"], **call["function"]}
            for call in message.get("tool_calls", ())
        ]
        if calls and "content" not in message:
            return calls
        return [{"role": message["role"], "content": message["content"]}, *calls]


class MessagesFamily(Family):
    """POST /v1/messages."""

    name = "messages"
    path = "/v1/messages"
    stop = "stop_sequences"
    seed = None
    schema = "output_config.format.schema"
    tool_schema = "tools[{}].input_schema"
    nullable = ("top_p", "top_k", "tools", "tool_choice", "system", "thinking", "output_config")
    always: ClassVar = {"max_tokens": 2000}
    ends: ClassVar[Mapping[str, End]] = {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "tool_use": "tool_calls",
    }

    def said(self, ask: Ask) -> Any:
        """See `Family.said`."""
        if ask.messages is None:
            return [{"role": "user", "content": ask.text}]
        return [self._message(message) for message in ask.messages]

    def in_form(self, body: dict[str, Any], schema: Mapping[str, Any]) -> None:
        """See `Family.in_form`."""
        put(body, "output_config.format", {"type": "json_schema", "schema": schema})

    def tool(self, tool: Tool) -> dict[str, Any]:
        """See `Family.tool`."""
        strict = {"strict": True} if tool.strict else {}
        return {"name": tool.name, "input_schema": tool.schema, **strict}

    def choice(self, choice: str) -> Any:
        """See `Family.choice`."""
        return {"type": "any"} if choice == "required" else {"type": "tool", "name": choice}

    def reply(self, body: Any) -> Reply:
        """See `Family.reply`."""
        said: dict[str, list[Any]] = {"text": [], "thinking": [], "tool_use": []}
        for block in body["content"]:
            said[block["type"]].append(block)
        assert (body["stop_sequence"] is not None) == (body["stop_reason"] == "stop_sequence")
        usage = body["usage"]
        cached = usage["cache_read_input_tokens"]
        return Reply(
            "".join(block["text"] for block in said["text"]),
            self.ends[body["stop_reason"]],
            "".join(block["thinking"] for block in said["thinking"]),
            tuple((call["name"], _arguments(call["input"])) for call in said["tool_use"]),
            prompt_tokens=usage["input_tokens"] + cached,
            completion_tokens=usage["output_tokens"],
            stop=body["stop_sequence"],
            cached=cached,
        )

    def read(self, raw: bytes) -> Stream:
        """See `Family.read`."""
        events = parse_events(raw)
        if events.kinds[-1] == "error":
            assert "message_stop" not in events.kinds
            return Stream(events.data, events.text, error=self.refusal(events.data[-1]))
        return Stream(events.data, events.text, self.reply(events.message))

    def refusal(self, body: Any) -> Refusal:
        """See `Family.refusal`."""
        assert body["type"] == "error"
        return said_error(body["error"])

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        content = message.get("content")
        if message["role"] == "tool":
            result = {"tool_use_id": message["tool_call_id"], "content": content}
            return {"role": "user", "content": [{"type": "tool_result", **result}]}
        calls = [
            {
                "type": "tool_use",
                "id": call["id"],
                "name": call["function"]["name"],
                "input": json.loads(call["function"]["arguments"]),
            }
            for call in message.get("tool_calls", ())
        ]
        if not calls:
            return dict(message)
        texts = [] if content is None else [{"type": "text", "text": content}]
        return {"role": message["role"], "content": [*texts, *calls]}


class OllamaFamily(Family):
    """POST /api/chat."""

    name = "ollama"
    path = CHAT
    content_type = "application/x-ndjson"
    length = "options.num_predict"
    stop = "options.stop"
    temperature = "options.temperature"
    seed = "options.seed"
    schema = "format"
    nullable = ("options", "format", "tools", "think", "keep_alive")

    def said(self, ask: Ask) -> Any:
        """See `Family.said`."""
        if ask.messages is None:
            return [{"role": "user", "content": ask.text}]
        return [self._message(message) for message in ask.messages]

    def in_form(self, body: dict[str, Any], schema: Mapping[str, Any]) -> None:
        """See `Family.in_form`."""
        body["format"] = schema

    def reply(self, body: Any) -> Reply:
        """See `Family.reply`."""
        return self._reply(joined(self.path, [body]), body)

    def read(self, raw: bytes) -> Stream:
        """See `Family.read`."""
        lines = lines_of(raw)
        said = [line for line in lines if "error" not in line]
        told = joined(self.path, said)
        if len(said) < len(lines):
            assert lines[:-1] == said
            assert not any(line["done"] for line in said)
            return Stream(lines, told["content"], error=self.refusal(lines[-1]))
        assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
        return Stream(lines, told["content"], self._reply(told, lines[-1]))

    def refusal(self, body: Any) -> Refusal:
        """See `Family.refusal`."""
        return Refusal(body["error"], param=field_in(body["error"]))

    def _reply(self, told: Mapping[str, Any], last: Mapping[str, Any]) -> Reply:
        calls = [call["function"] for call in told["tool_calls"]]
        assert last["done"]
        return Reply(
            told["content"],
            "tool_calls" if calls else ENDS[last["done_reason"]],
            told["thinking"],
            tuple((call["name"], _arguments(call["arguments"])) for call in calls),
            prompt_tokens=last["prompt_eval_count"],
            completion_tokens=last["eval_count"],
        )

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Its calls have objects and no ids, its results the names of tools."""
        if "tool_calls" not in message:
            return {name: value for name, value in message.items() if name != "tool_call_id"}
        calls = [
            {"function": {**f, "arguments": json.loads(f["arguments"])}}
            for f in (call["function"] for call in message["tool_calls"])
        ]
        return {**message, "tool_calls": calls}


class GenerateFamily(OllamaFamily):
    """POST /api/generate."""

    name = "generate"
    path = GENERATE
    prompt = "prompt"
    nullable = ("options", "format", "system", "suffix", "think", "keep_alive", "images")

    def said(self, ask: Ask) -> Any:
        """See `Family.said`."""
        assert ask.messages is None
        return ask.text


def _texts(items: list[Any]) -> str:
    return "".join(part["text"] for item in items for part in item["content"])


def _arguments(value: Mapping[str, Any]) -> str:
    """An object as models write it."""
    return json.dumps(value, ensure_ascii=False)
