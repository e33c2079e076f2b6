"""OpenAI's chats and text completions, and llama-server's completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tests.edge.cases.family import Family
from tests.edge.cases.said import ENDS, Ask, Reply, Stream
from tests.edge.wire import parse_sse


class ChatFamily(Family):
    """POST /v1/chat/completions."""

    name = "chat"
    path = "/v1/chat/completions"
    schema = "response_format.json_schema.schema"
    nullable = ("top_p", "tools", "tool_choice", "response_format", "logit_bias", "stream_options")
    streamed: ClassVar = {"stream_options": {"include_usage": True}}

    def said(self, ask: Ask) -> Any:
        """See `Family.said`."""
        if ask.messages is not None:
            return list(ask.messages)
        return [{"role": "user", "content": ask.text}]

    def in_form(self, body: dict[str, Any], schema: Mapping[str, Any]) -> None:
        """See `Family.in_form`."""
        form = {"name": "form", "schema": schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": form}

    def reply(self, body: Any) -> Reply:
        """See `Family.reply`."""
        (choice,) = body["choices"]
        message = choice["message"]
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        return Reply(
            message["content"] or "",
            ENDS[choice["finish_reason"]],
            message.get("reasoning_content") or "",
            tuple((call["name"], call["arguments"]) for call in calls),
            **_usage(body["usage"]),
        )

    def read(self, raw: bytes) -> Stream:
        """See `Family.read`."""
        streamed = parse_sse(raw)
        if "error" in streamed.data[-1]:
            assert not streamed.is_done
            return Stream(streamed.data, streamed.text, error=self.refusal(streamed.data[-1]))
        assert streamed.is_done
        *chunks, last = streamed.data
        assert last["choices"] == []
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        assert deltas[0]["role"] == "assistant"
        calls: list[list[str]] = []
        for call in (call for delta in deltas for call in delta.get("tool_calls") or ()):
            if "id" in call:
                assert call["index"] == len(calls)
                calls.append([call["function"]["name"], ""])
            calls[call["index"]][1] += call["function"]["arguments"]
        reply = Reply(
            streamed.text,
            ENDS[chunks[-1]["choices"][0]["finish_reason"]],
            "".join(delta.get("reasoning_content") or "" for delta in deltas),
            tuple((name, arguments) for name, arguments in calls),
            **_usage(last["usage"]),
        )
        return Stream(streamed.data, streamed.text, reply)


class PromptFamily(Family):
    """Takes a text, and no chat."""

    prompt = "prompt"
    schema = "json_schema"

    def said(self, ask: Ask) -> Any:
        """See `Family.said`."""
        assert ask.messages is None
        return ask.text

    def in_form(self, body: dict[str, Any], schema: Mapping[str, Any]) -> None:
        """See `Family.in_form`."""
        body["json_schema"] = schema


class TextFamily(PromptFamily):
    """POST /v1/completions."""

    name = "text"
    path = "/v1/completions"
    nullable = ("top_p", "tools", "tool_choice", "logprobs", "echo", "suffix", "stream_options")
    streamed: ClassVar = ChatFamily.streamed

    def reply(self, body: Any) -> Reply:
        """See `Family.reply`."""
        (choice,) = body["choices"]
        return Reply(choice["text"], ENDS[choice["finish_reason"]], **_usage(body["usage"]))

    def read(self, raw: bytes) -> Stream:
        """See `Family.read`."""
        streamed = parse_sse(raw)
        if "error" in streamed.data[-1]:
            assert not streamed.is_done
            return Stream(streamed.data, streamed.text, error=self.refusal(streamed.data[-1]))
        assert streamed.is_done
        *chunks, last = streamed.data
        end = ENDS[chunks[-1]["choices"][0]["finish_reason"]]
        return Stream(
            streamed.data, streamed.text, Reply(streamed.text, end, **_usage(last["usage"]))
        )


class NativeFamily(PromptFamily):
    """POST /completion."""

    name = "native"
    path = "/completion"
    length = "n_predict"
    nullable = ("top_p", "tools", "tool_choice", "n_probs", "samplers", "response_fields")
    stops: ClassVar = {"eos": "stop", "word": "stop", "limit": "length"}

    def reply(self, body: Any) -> Reply:
        """See `Family.reply`."""
        assert body["stop"]
        return Reply(
            body["content"],
            ENDS[self.stops[body["stop_type"]]],
            prompt_tokens=body["tokens_evaluated"],
            completion_tokens=body["tokens_predicted"],
            stop=body["stopping_word"] or None,
            cached=body["timings"]["cache_n"],
        )

    def read(self, raw: bytes) -> Stream:
        """See `Family.read`."""
        streamed = parse_sse(raw)
        text = "".join(chunk.get("content", "") for chunk in streamed.data)
        last = streamed.data[-1]
        assert not streamed.is_done
        if "error" in last:
            return Stream(streamed.data, text, error=self.refusal(last))
        return Stream(streamed.data, text, self.reply({**last, "content": text}))


def _usage(usage: Any) -> dict[str, Any]:
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return {
        "prompt_tokens": usage["prompt_tokens"],
        "completion_tokens": usage["completion_tokens"],
        "cached": usage["prompt_tokens_details"]["cached_tokens"],
    }
