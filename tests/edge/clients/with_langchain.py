"""What LangChain asks, over four APIs: chats, streams, tools and their results, forms, vectors.

The server's model echoes what it is told (`LLAMAWEB_ENGINE=mock`), so the texts here are answers.
"""

from __future__ import annotations

import os
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

MODEL = "default"
CALL = '<tool_call>\n{"name": "%s", "arguments": {"city": "Zurich"}}\n</tool_call>'
THOUGHT = "<think>Let me look.</think>Well."
FORM = '{"city": "Zurich"}'


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"Rain in {city}."


class Place(BaseModel):
    """Where."""

    city: str


def talk(model: BaseChatModel, form: str) -> None:
    """A chat, a stream, a call with its result, and an answer in a form that `form` asks for."""
    whole = model.invoke([("system", "Be brief."), ("user", "Hello")])
    chunks = list(model.stream([("system", "Be brief."), ("user", "Hello")]))
    assert whole.text == "".join(chunk.text for chunk in chunks) == "Hello"
    used = [each.usage_metadata for each in (whole, *chunks) if each.usage_metadata]
    assert len(used) > 1
    assert all(usage["total_tokens"] >= usage["input_tokens"] for usage in used)

    tooled = model.bind_tools([weather])
    asked = HumanMessage(CALL % "weather")
    answer = tooled.invoke([asked])
    streamed: Any = None
    for chunk in tooled.stream([asked]):
        streamed = chunk if streamed is None else streamed + chunk
    for message in (answer, streamed):
        (call,) = message.tool_calls
        assert (call["name"], call["args"]) == ("weather", {"city": "Zurich"})
    result = ToolMessage("Rain.", tool_call_id=answer.tool_calls[0]["id"])
    assert not tooled.invoke([asked, answer, result]).tool_calls
    assert model.with_structured_output(Place).invoke(form) == Place(city="Zurich")


def think(model: BaseChatModel) -> None:
    """An answer with thoughts, which goes back as it came."""
    asked = HumanMessage(THOUGHT)
    answer = model.invoke([asked])
    thoughts = [block for block in answer.content_blocks if block["type"] == "reasoning"]
    print(type(model).__name__, "thoughts:", thoughts)
    model.invoke([asked, answer, HumanMessage("Go on.")])


def main() -> None:
    """All of it."""
    url, key = os.environ["LLAMAWEB_URL"], os.environ["LLAMAWEB_KEY"]
    chat = ChatOpenAI(model=MODEL, temperature=0, stream_usage=True)
    talk(chat, FORM)
    assert chat.with_structured_output(Place, method="function_calling").invoke(CALL % "Place")
    assert chat.with_structured_output(Place, method="json_mode").invoke(FORM)
    think(chat)
    responses = ChatOpenAI(model=MODEL, temperature=0, use_responses_api=True, store=False)
    talk(responses, FORM)
    think(responses)

    claude: dict[str, Any] = {"model": MODEL, "base_url": url, "api_key": key, "max_tokens": 2048}
    talk(ChatAnthropic(temperature=0, **claude), CALL % "Place")
    think(ChatAnthropic(thinking={"type": "enabled", "budget_tokens": 1024}, **claude))

    headers = {"headers": {"Authorization": f"Bearer {key}"}}
    ollama: dict[str, Any] = {"model": MODEL, "base_url": url, "client_kwargs": headers}
    talk(ChatOllama(temperature=0, **ollama), FORM)
    think(ChatOllama(reasoning=True, **ollama))

    texts = ["Hello", "Bye"]
    # Else it sends ids of OpenAI's own vocabulary.
    vectors = OpenAIEmbeddings(model=MODEL, check_embedding_ctx_length=False)
    assert len(vectors.embed_documents(texts)) == 2
    assert len(OllamaEmbeddings(**ollama).embed_documents(texts)) == 2
    chat.invoke([HumanMessage("Hello"), AIMessage("Hi"), HumanMessage("Bye")], stop=["\n\n"])


if __name__ == "__main__":
    main()
