"""What LiteLLM asks, by its providers for OpenAI, Anthropic and Ollama: chats, streams, tools,
forms, reasoning in the history, texts, vectors, scores.

The server's model echoes what it is told (`LLAMAWEB_ENGINE=mock`), so the texts here are answers.
"""

from __future__ import annotations

import os
from typing import Any

import litellm
from pydantic import BaseModel

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Zurich"}}\n</tool_call>'
THOUGHT = "<think>Let me look.</think>Well."
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


class Place(BaseModel):
    """Where."""

    city: str


def user(text: str) -> dict[str, Any]:
    """A message."""
    return {"role": "user", "content": text}


def talk(model: str, **given: Any) -> None:
    """A chat, a stream, a call with its result, thoughts that go back, an answer in a form."""
    given = {"model": model, "max_tokens": 500, **given}
    asked = [{"role": "system", "content": "Be brief."}, user("Hello")]
    whole = litellm.completion(messages=asked, temperature=0, **given)
    assert whole.choices[0].message.content == "Hello"
    usage = whole.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(litellm.completion(messages=asked, **options, **given))
    assert litellm.stream_chunk_builder(chunks).choices[0].message.content == "Hello"

    tooled = {"tools": [WEATHER], "tool_choice": "auto", **given}
    answer = litellm.completion(messages=[user(CALL)], **tooled)
    chunks = list(litellm.completion(messages=[user(CALL)], stream=True, **tooled))
    for message in (answer, litellm.stream_chunk_builder(chunks)):
        (call,) = message.choices[0].message.tool_calls
        assert call.function.name == "weather"
        assert "Zurich" in call.function.arguments
    result = {"role": "tool", "tool_call_id": call.id, "content": "Rain."}
    said = message.choices[0].message.model_dump()
    litellm.completion(messages=[user(CALL), said, result], **tooled)

    thoughts = litellm.completion(messages=[user(THOUGHT)], **given).choices[0].message
    print(model, "thoughts:", getattr(thoughts, "reasoning_content", None))
    messages = [user(THOUGHT), thoughts.model_dump(), user("Go on.")]
    litellm.completion(messages=messages, **given)
    form = [user('{"city": "Zurich"}')]
    litellm.completion(messages=form, response_format=Place, **given)


def main() -> None:
    """All of it."""
    url, key = os.environ["LLAMAWEB_URL"], os.environ["LLAMAWEB_KEY"]
    openai: dict[str, Any] = {"api_base": f"{url}/v1", "api_key": key, "num_retries": 0}
    talk("openai/default", **openai)
    talk("anthropic/default", api_base=url, api_key=key, num_retries=0)
    talk("ollama_chat/default", api_base=url, api_key=key, num_retries=0)
    assert litellm.text_completion(
        model="text-completion-openai/default", prompt="Hello", max_tokens=16, **openai
    )
    assert litellm.responses(model="openai/default", input="Hello", store=False, **openai)
    assert list(
        litellm.responses(model="openai/default", input="Hello", store=False, stream=True, **openai)
    )
    texts = ["Hello", "Bye"]
    assert len(litellm.embedding(model="openai/default", input=texts, **openai).data) == 2
    assert len(litellm.embedding(model="ollama/default", input=texts, api_base=url).data) == 2
    ranked = litellm.rerank(
        model="hosted_vllm/default", query="Hello", documents=texts, api_base=url, api_key=key
    )
    assert len(ranked.results) == 2


if __name__ == "__main__":
    main()
