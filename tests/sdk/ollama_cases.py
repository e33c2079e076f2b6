"""The official Ollama client."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from ollama import Client, ResponseError

from tests.stack import Stack

OLLAMA_HELLO = [{"role": "user", "content": "Hello, Ollama!"}]


def ollama_of(stack: Stack, key: str) -> Client:
    """With a key."""
    return Client(stack.base_url, headers={"Authorization": f"Bearer {key}"}, timeout=60)


@pytest.fixture
def ollama(stack: Stack, key: str) -> Iterator[Client]:
    """With a key of alice's."""
    with ollama_of(stack, key) as client:
        yield client


def test_ollama_chats(ollama: Client) -> None:
    whole = ollama.chat("mock:latest", OLLAMA_HELLO)
    assert whole.message.role == "assistant"
    assert whole.message.content
    assert whole.done
    assert whole.prompt_eval_count
    parts = list(ollama.chat("mock", OLLAMA_HELLO, stream=True))
    assert "".join(part.message.content or "" for part in parts) == whole.message.content
    assert [part.done for part in parts] == [*[False] * (len(parts) - 1), True]
    assert parts[-1].done_reason == whole.done_reason
    assert parts[-1].eval_count == whole.eval_count


def test_ollama_generates(ollama: Client) -> None:
    whole = ollama.generate("mock", "Hello!", system="Be brief.", options={"num_predict": 4})
    assert whole.response
    assert (whole.done_reason, whole.eval_count) == ("length", 4)
    parts = list(ollama.generate("mock", "Hello!", options={"num_predict": 4}, stream=True))
    assert parts[-1].eval_count == 4
    assert ollama.generate("mock", "<s>raw", raw=True).response


def test_ollama_takes_tools_and_their_history(ollama: Client) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: one
            b: another
        """
        return a + b

    call = {"function": {"name": "add", "arguments": {"a": 1, "b": 2}}}
    history = [
        *OLLAMA_HELLO,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_name": "add", "content": "3"},
    ]
    answer = ollama.chat("mock", history, tools=[add], think=False)
    assert answer.message.content


def test_ollama_lists_and_shows_models(ollama: Client) -> None:
    assert [model.model for model in ollama.list().models] == ["mock"]
    assert [model.name for model in ollama.ps().models] == ["mock"]
    assert "completion" in (ollama.show("mock").capabilities or [])
    loaded = ollama.generate("mock")
    assert loaded.done_reason == "load"


def test_ollama_embeds(ollama: Client) -> None:
    found = ollama.embed("mock", ["a cat", "a dog", "a cat"])
    assert len(found.embeddings) == 3
    assert found.embeddings[0] == found.embeddings[2] != found.embeddings[1]
    assert math.hypot(*found.embeddings[0]) == pytest.approx(1.0, abs=1e-5)
    assert found.prompt_eval_count
    assert len(ollama.embed("mock", "x", dimensions=16).embeddings[0]) == 16
    assert ollama.embed("mock", "word " * 600).embeddings  # cut
    with pytest.raises(ResponseError) as caught:
        ollama.embed("mock", "word " * 600, truncate=False)
    assert caught.value.status_code == 400
    assert ollama.embeddings("mock", "a cat").embedding


def test_ollama_raises_what_went_wrong(ollama: Client, stack: Stack) -> None:
    for error, status in (
        (lambda: ollama.chat("nobody", OLLAMA_HELLO), 404),
        (lambda: list(ollama.chat("nobody", OLLAMA_HELLO, stream=True)), 404),
        (lambda: ollama.chat("mock", OLLAMA_HELLO, options={"stop": ["x"] * 65}), 400),
        (lambda: ollama.pull("mock"), 501),
        (lambda: ollama.delete("mock"), 501),
    ):
        with pytest.raises(ResponseError) as caught:
            error()
        assert caught.value.status_code == status
        assert caught.value.error
    with ollama_of(stack, "wrong") as stranger, pytest.raises(ResponseError) as caught:
        stranger.list()
    assert caught.value.status_code == 401
