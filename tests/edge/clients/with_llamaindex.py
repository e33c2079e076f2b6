"""What LlamaIndex asks as `OpenAILike`: chats, texts, streams, tools, forms, vectors.

The server's model echoes what it is told (`LLAMAWEB_ENGINE=mock`), so the texts here are answers.
"""

from __future__ import annotations

import os
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

MODEL = "default"
CALL = '<tool_call>\n{"name": "%s", "arguments": {"city": "Zurich"}}\n</tool_call>'


def weather(city: str) -> str:
    """The weather of a city."""
    return f"Rain in {city}."


class Place(BaseModel):
    """Where."""

    city: str


def main() -> None:
    """All of it."""
    given: dict[str, Any] = {
        "api_base": os.environ["OPENAI_BASE_URL"],
        "api_key": os.environ["LLAMAWEB_KEY"],
    }
    chat = OpenAILike(
        model=MODEL, is_chat_model=True, is_function_calling_model=True, max_retries=0, **given
    )
    asked = [
        ChatMessage(role=MessageRole.SYSTEM, content="Be brief."),
        ChatMessage(role=MessageRole.USER, content="Hello"),
    ]
    assert chat.chat(asked).message.content == "Hello"
    *_, last = chat.stream_chat(asked)
    assert last.message.content == "Hello"
    assert chat.complete("Hello").text == "Hello"

    tools = [FunctionTool.from_defaults(weather)]
    said = ChatMessage(role=MessageRole.USER, content=CALL % "weather")
    answer = chat.chat_with_tools(tools, user_msg=said)
    *_, streamed = chat.stream_chat_with_tools(tools, user_msg=said)
    for each in (answer, streamed):
        (call,) = chat.get_tool_calls_from_response(each)
        assert (call.tool_name, call.tool_kwargs) == ("weather", {"city": "Zurich"})
    result = ChatMessage(
        role=MessageRole.TOOL,
        content="Rain.",
        additional_kwargs={"tool_call_id": call.tool_id, "name": "weather"},
    )
    chat.chat_with_tools(tools, chat_history=[said, answer.message, result])
    place = chat.as_structured_llm(Place).complete(CALL % "Place")
    assert place.raw == Place(city="Zurich")
    formed = OpenAILike(
        model=MODEL, is_chat_model=True, should_use_structured_outputs=True, max_retries=0, **given
    )
    assert formed.as_structured_llm(Place).complete('{"city": "Zurich"}').raw == place.raw

    text = OpenAILike(model=MODEL, is_chat_model=False, max_retries=0, max_tokens=16, **given)
    assert text.complete("Hello").text
    assert list(text.stream_complete("Hello"))
    vectors = OpenAILikeEmbedding(model_name=MODEL, max_retries=0, **given)
    assert len(vectors.get_text_embedding_batch(["Hello", "Bye"])) == 2
    assert vectors.get_query_embedding("Hello")


if __name__ == "__main__":
    main()
